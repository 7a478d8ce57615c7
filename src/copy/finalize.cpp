// Post-data, entry by entry, each in a transaction of its own: whatever a crash leaves is whole, and the target's
// catalog says what is still to do.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <set>

#include "restore.hpp"
#include "sql_script.hpp"
#include "target_objects.hpp"

namespace pgbaton::copy {
namespace {

bool is_index_of_table(const TocEntry& entry) {
  const auto& what = entry.description;
  return what == "INDEX" || what == "CONSTRAINT" || what == "CHECK CONSTRAINT";
}

// What fires or is checked on every write: without replica role it comes when the stream has ended.
bool acts_on_writes(const TocEntry& entry) {
  const auto& what = entry.description;
  return what == "FK CONSTRAINT" || what == "TRIGGER" || what == "EVENT TRIGGER" ||
         (what == "RULE" && entry.object != "_RETURN");
}

bool is_remark(const TocEntry& entry) {
  return entry.description == "COMMENT" || entry.description == "SECURITY LABEL";
}

// One pass over post-data; collects what a person must know.
class Restorer {
 public:
  Restorer(pg::Connection& target, const SchemaArchive& archive, bool with_triggers, const std::stop_token& stop,
           bool gently)
      : target_(target),
        archive_(archive),
        with_triggers_(with_triggers),
        stop_(stop),
        gently_(gently),
        present_(TargetObjects::load(target)) {}

  RestReport run() {
    // Event triggers last: they are not meant for what happens here.
    for (const bool event_triggers : {false, true}) {
      for (const auto& entry : archive_.entries())
        if (entry.section == Section::post_data && (entry.description == "EVENT TRIGGER") == event_triggers)
          restore(entry);
      if (!event_triggers) refresh_views();
    }
    if (gently_) validate_foreign_keys();
    return std::move(report_);
  }

 private:
  void warn(std::string text) {
    log::warning("{}", text);
    report_.warnings.push_back(std::move(text));
  }

  void restore(const TocEntry& entry) {
    if (entry.left_out) {
      warn(fmt::format("left out with the excluded tables: {}", describe(entry)));
      skipped_.insert(entry.id);
      return;
    }
    if (!with_triggers_ && acts_on_writes(entry)) {
      skipped_.insert(entry.id);
      return;
    }
    const bool of_skipped = std::ranges::any_of(entry.dependencies, [&](int id) { return skipped_.contains(id); });
    if ((is_remark(entry) && of_skipped) || present_.has(entry)) return;
    if (entry.description == "FK CONSTRAINT")
      add_foreign_key(entry);
    else if (entry.description == "EVENT TRIGGER")
      add_event_trigger(entry);
    else
      run_entry(target_, entry, stop_);
  }

  // Only a superuser may; check has said so.
  void add_event_trigger(const TocEntry& entry) try { run_entry(target_, entry, stop_); } catch (const Error& error) {
    if (error.sqlstate() != "42501") throw;
    warn(fmt::format("event trigger {} was left out: {}", quote_identifier(entry.tag), error.message()));
    skipped_.insert(entry.id);
  }

  static bool is_unvalidated(const TocEntry& entry) { return first_statement(entry.sql).ends_with(" NOT VALID"); }

  void add_foreign_key(const TocEntry& entry) {
    if (gently_ && !is_unvalidated(entry) && entry.table_kind == 'r') {
      target_.exec("SET lock_timeout = '10s'; " + std::string(first_statement(entry.sql)) +
                   " NOT VALID; RESET lock_timeout");
      return;
    }
    try {
      run_entry(target_, entry, stop_);
      return;
    } catch (const Error& error) {
      if (error.sqlstate() != "23503") throw;
      warn(fmt::format("foreign key {} of {} does not hold in the data of the source: {}",
                       quote_identifier(entry.object), entry.table.quoted(), error.message()));
    }
    add_unvalidated(entry);
  }

  // Also those that an earlier run has only added.
  void validate_foreign_keys() {
    for (const auto& entry : archive_.entries()) {
      if (entry.description != "FK CONSTRAINT" || entry.left_out || is_unvalidated(entry)) continue;
      try {
        target_.exec_until(
            fmt::format("ALTER TABLE {} VALIDATE CONSTRAINT {}", entry.table.quoted(), quote_identifier(entry.object)),
            Deadline::never(), stop_);
      } catch (const Error& error) {
        if (error.sqlstate() != "23503") throw;
        warn(fmt::format("foreign key {} of {} does not hold in the data of the source and stays NOT VALID: {}",
                         quote_identifier(entry.object), entry.table.quoted(), error.message()));
      }
    }
  }

  void add_unvalidated(const TocEntry& entry) try {
    exec_waiting(target_, std::string(first_statement(entry.sql)) + " NOT VALID", "creating " + describe(entry),
                 entry.table, stop_);
    warn(fmt::format("it was created NOT VALID; when the rows are mended, run: ALTER TABLE {} VALIDATE CONSTRAINT {}",
                     entry.table.quoted(), quote_identifier(entry.object)));
  } catch (const Error& error) {
    // 0A000: a partitioned table cannot have one (before 18).
    if (error.sqlstate() != "0A000" && error.sqlstate() != "42809") throw;
    warn(fmt::format("it could not be created at all: {}", error.message()));
  }

  // Definitions stand in dependency order, but a view between two materialized ones may be completed late: what is not
  // ready is tried again until a whole pass brings nothing.
  void refresh_views() {
    auto waiting = unpopulated_views();
    std::map<std::string, std::string> reasons;
    for (std::size_t before = waiting.size() + 1; !waiting.empty() && waiting.size() < before;) {
      before = waiting.size();
      std::erase_if(waiting, [&](const QualifiedName& view) { return refresh(view, reasons[view.quoted()]); });
    }
    for (const auto& view : waiting)
      warn(fmt::format("materialized view {} was left empty: {}", view.quoted(), reasons[view.quoted()]));
  }

  std::vector<QualifiedName> unpopulated_views() {
    const auto rows = target_.exec(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "
        "c.relnamespace"
        " WHERE c.relkind = 'm' AND NOT c.relispopulated");
    std::set<QualifiedName> empty;
    for (int i = 0; i < rows.rows(); ++i) empty.insert({rows.text(i, 0), rows.text(i, 1)});
    std::vector<QualifiedName> views;
    for (const auto& entry : archive_.entries())
      if (entry.description == "MATERIALIZED VIEW" && entry.populated && !entry.left_out && empty.contains(entry.table))
        views.push_back(entry.table);
    return views;
  }

  bool refresh(const QualifiedName& view, std::string& reason) {
    try {
      const auto sql = "REFRESH MATERIALIZED VIEW " + view.quoted();
      exec_waiting(target_, sql, sql, view, stop_);
      return true;
    } catch (const Error& error) {
      if (error.action() == Action::retry || error.sqlstate().empty()) throw;
      reason = error.message();
      return false;
    }
  }

  pg::Connection& target_;
  const SchemaArchive& archive_;
  const bool with_triggers_;
  const std::stop_token& stop_;
  const bool gently_;
  const TargetObjects present_;
  std::set<int> skipped_;
  RestReport report_;
};

}  // namespace

void build_indexes(const pg::Endpoint& target, const SchemaArchive& archive, const std::vector<CopyJob>& tables,
                   const std::stop_token& stop) {
  std::set<QualifiedName> wanted;
  for (const auto& job : tables)
    if (job.table.kind != 'p') wanted.insert(job.table.name);
  std::vector<const TocEntry*> entries;
  for (const auto& entry : archive.entries())
    if (is_index_of_table(entry) && !entry.left_out && wanted.contains(entry.table)) entries.push_back(&entry);
  if (entries.empty()) return;
  auto connection = open_restore(target, "index");
  const auto present = TargetObjects::load(connection);
  for (const auto* entry : entries)
    if (!present.has(*entry)) run_entry(connection, *entry, stop);
}

RestReport restore_rest(const pg::Endpoint& target, const SchemaArchive& archive, bool with_triggers,
                        const std::stop_token& stop, bool gently) {
  auto connection = open_restore(target, "schema");
  return Restorer(connection, archive, with_triggers, stop, gently).run();
}

}  // namespace pgbaton::copy
