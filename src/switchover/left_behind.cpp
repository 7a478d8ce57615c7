// Rows that the application has on the source and would miss on the target, because the replica does not carry them.
// Nobody learns of that later: the source is closed then. So it is a blocker, unless the settings allow it by name.
//
// Tables without a usable identity send inserts only. That the source counted an UPDATE of one does not say that it is
// not on the target (it may be from before the copy), so those tables are compared; what comes after that is seen in
// the counters again before the flip.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/catalog/name_patterns.hpp>
#include <pgbaton/state/doubt.hpp>

#include <set>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

using snapshot::Finding;
using snapshot::Severity;

constexpr std::string_view kSetting = "allow-left-behind";

class LeftBehind {
 public:
  LeftBehind(const Options& options, pg::Control& source, pg::Control& target, const state::Replica& replica)
      : options_(options), source_(source), tables_(state::Store(target).load_tables(replica)) {
    for (const auto& table : catalog::load_tables(source)) here_.insert(table.name);
    for (const auto& table : catalog::load_tables(target, {}, Side::target)) there_.insert(table.name);
    doubts_ = state::load_doubts(target, replica.name);
  }

  std::vector<Finding> run(const std::stop_token& stop) {
    look_outside();
    look_at_skipped();
    look_at_unknown();
    look_at_inserts_only(stop);
    return std::move(findings_);
  }

 private:
  void add(std::string id, const QualifiedName& table, std::string message, const std::string& remedy) {
    const bool may = may_stay_behind(options_, table);
    findings_.push_back({std::move(id), may ? Severity::warning : Severity::blocker, table.quoted(),
                         message + (may ? fmt::format("; {} lets it be", kSetting) : ""),
                         may ? std::string()
                             : fmt::format("{}; or do without: {}: [{}] in section switchover.", remedy, kSetting,
                                           quote_literal(table.quoted()))});
  }

  // Of one that nobody may read nothing is known.
  bool has_rows(const QualifiedName& table) {
    return pg::control(Side::source, "looking for rows", [&] {
      pqxx::nontransaction tx(source_);
      if (!tx.exec_params1("select pg_catalog.has_table_privilege($1, 'select')", table.quoted())[0].as<bool>())
        return true;
      return tx.exec1("select exists (select from only " + table.quoted() + ")")[0].as<bool>();
    });
  }

  void look_outside() {
    for (const auto& doubt : doubts_) {
      if (doubt.kind != state::DoubtKind::outside || !here_.contains(doubt.table)) continue;
      told_.insert(doubt.table);
      if (!there_.contains(doubt.table) || has_rows(doubt.table))
        add("table.left_behind", doubt.table, doubt.reason, doubt.remedy);
    }
  }

  // They are there on the target, without rows.
  void look_at_skipped() {
    for (const auto& table : tables_) {
      known_.insert(table.name);
      const bool lost = table.phase == state::TablePhase::skipped && here_.contains(table.name);
      if (!lost || !told_.insert(table.name).second || !has_rows(table.name)) continue;
      add("table.skipped", table.name,
          "its rows are not carried" + (table.note.empty() ? std::string() : " (" + table.note + ")"),
          table.note.starts_with("unlogged")
              ? fmt::format("Move them by hand, or ALTER TABLE {} SET LOGGED; and pgbaton clone --restart",
                            table.name.quoted())
              : "Move them by hand, or clone the database with them");
    }
  }

  // A partition that came to a table of the replica is the stream's as soon as the target has it.
  void look_at_unknown() {
    const auto all = catalog::load_tables(source_);
    std::set<catalog::Oid> roots;
    for (const auto& table : all)
      if (table.kind == 'p' && known_.contains(table.name)) roots.insert(table.oid);
    for (const auto& table : all) {
      if (known_.contains(table.name) || told_.contains(table.name)) continue;
      const bool there = there_.contains(table.name);
      if (there && (roots.contains(table.root_oid) || !has_rows(table.name))) continue;
      add("table.left_behind", table.name,
          there ? "is not part of the replica: its rows are not carried"
                : "is not part of the replica, and not on the "
                  "target",
          fmt::format("{}pgbaton resync --add {}",
                      table.persistence == 'u' ? fmt::format("ALTER TABLE {} SET LOGGED; ", table.name.quoted()) : "",
                      table.name.quoted()));
    }
  }

  void look_at_inserts_only(const std::stop_token& stop) {
    const auto unsent = count_unsent(options_, source_, tables_);
    auto request = options_.verify;
    request.filter = {};
    for (const auto& [table, writes] : unsent) request.filter.include_tables.push_back(table.quoted());
    if (!unsent.empty()) compare(request, stop);
    for (const auto& table : tables_)
      if (table.inserts_only && table.phase != state::TablePhase::skipped && may_stay_behind(options_, table.name))
        add("table.insert_only", table.name, "of it only INSERT and TRUNCATE are carried", "");
  }

  void compare(const verify::Options& request, const std::stop_token& stop) try {
    log::info("comparing tables that had UPDATEs or DELETEs, of which only inserts are carried: {}",
              fmt::join(request.filter.include_tables, ", "));
    for (const auto& table : verify::run(request, stop).tables)
      if (table.differences > 0)
        add("table.insert_only", table.name,
            fmt::format("differs in {}: of a table without a usable identity only INSERT and TRUNCATE are carried, and "
                        "it had UPDATEs or DELETEs",
                        table.differences == 1 ? "one row" : fmt::format("{} rows", table.differences)),
            fmt::format("pgbaton resync {}", table.name.quoted()));
  } catch (const Error& error) {
    findings_.push_back({"table.insert_only", Severity::blocker,
                         fmt::format("{}", fmt::join(request.filter.include_tables, ", ")),
                         "could not be compared: " + error.describe(), error.hint()});
  }

  const Options& options_;
  pg::Control& source_;
  const std::vector<state::TableState> tables_;
  std::vector<state::Doubt> doubts_;
  std::set<QualifiedName> here_, there_, known_, told_;
  std::vector<Finding> findings_;
};

}  // namespace

bool may_stay_behind(const Options& options, const QualifiedName& table) {
  return catalog::matches_any(options.settings.allow_left_behind, table, kSetting);
}

verify::Options without_unsent(const Options& options, const std::vector<state::TableState>& tables) {
  auto request = options.verify;
  for (const auto& table : tables)
    if (table.inserts_only && may_stay_behind(options, table.name))
      request.filter.exclude_tables.push_back(table.name.quoted());
  return request;
}

std::map<QualifiedName, std::int64_t> count_unsent(const Options& options, pg::Control& source,
                                                   const std::vector<state::TableState>& tables) {
  std::vector<std::uint32_t> oids;
  for (const auto& table : tables)
    if (table.inserts_only && table.phase != state::TablePhase::skipped && !may_stay_behind(options, table.name))
      oids.push_back(table.source_oid);
  std::map<QualifiedName, std::int64_t> unsent;
  pg::control(Side::source, "reading table statistics", [&] {
    for (const auto& counts : catalog::load_write_counts(source, oids))
      unsent[counts.name] = counts.updates + counts.deletes;
  });
  return unsent;
}

std::vector<Finding> look_left_behind(const Options& options, pg::Control& source, pg::Control& target,
                                      const state::Replica& replica, const std::stop_token& stop) {
  return LeftBehind(options, source, target, replica).run(stop);
}

}  // namespace pgbaton::switchover
