// Rows that the application has on the source and would miss on the target, because the replica does not carry them.
// Nobody learns of that later: the source is closed then. So it is a blocker, unless the settings allow it by name.
//
// Tables without a usable identity send inserts only. The source's counters prove nothing of what else they had (a
// crash throws them away, idle sessions hold them back), so those tables are compared: in preflight, while nobody
// waits, and once more when the writers are fenced.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/name_patterns.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/switchover.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

using snapshot::Finding;
using snapshot::Severity;

constexpr std::string_view kSetting = "allow-left-behind";
// For the look into a table that somebody has locked, or that is large and empty.
constexpr const char* kLookBounds = "set local lock_timeout = '2s'; set local statement_timeout = '10s'";
// What is read in a second at the least: so little did not run out of time, it waited for a cut.
constexpr std::uint64_t kBytesPerSecond = 32 << 20;

std::string names_of(const std::vector<Count>& tables) {
  std::vector<std::string> names;
  for (const auto& one : tables) names.push_back(one.table.quoted());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string in_part_remedy(const std::string& first, const std::string& names) {
  return fmt::format("{}; or do without: {} in section switchover, for {}.", first, kSetting, names);
}

Finding blocker_in_part(std::string object, std::string message, std::string remedy) {
  return {"table.insert_only", Severity::blocker, std::move(object), std::move(message), std::move(remedy)};
}

class LeftBehind {
 public:
  LeftBehind(const Options& options, pg::Control& source, pg::Control& target, const state::Replica& replica)
      : options_(options),
        source_(source),
        target_(target),
        replica_(replica.name),
        tables_(state::Store(target).load_tables(replica)) {
    for (const auto& table : catalog::load_tables(source)) here_.insert(table.name);
    for (const auto& table : catalog::load_tables(target, {}, Side::target)) there_.insert(table.name);
    doubts_ = state::load_doubts(target, replica.name);
  }

  std::vector<Finding> run(const std::stop_token& stop) {
    stop_ = stop;
    look_at_others();
    look_outside();
    look_at_skipped();
    look_at_unknown();
    look_at_inserts_only();
    return std::move(findings_);
  }

 private:
  void add(std::string id, const QualifiedName& table, std::string message, const std::string& remedy) {
    const bool may = may_stay_behind(options_, table);
    findings_.push_back({std::move(id), may ? Severity::warning : Severity::blocker, table.quoted(),
                         message + unseen_[table] + (may ? fmt::format("; {} lets it be", kSetting) : ""),
                         may ? std::string()
                             : fmt::format("{}; or do without: {}: [{}] in section switchover.", remedy, kSetting,
                                           quote_literal(table.quoted()))});
  }

  // Of one that nobody may read nothing is known; of one that may stay behind nothing needs to be.
  bool has_rows(const QualifiedName& table) {
    if (may_stay_behind(options_, table)) return true;
    if (stop_.stop_requested()) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
    try {
      return pg::control(Side::source, "looking for rows", [&] {
        pqxx::work tx(source_);
        tx.exec0(kLookBounds);
        if (!tx.exec_params1("select pg_catalog.has_table_privilege($1, 'select')", table.quoted())[0].as<bool>())
          return true;
        return tx.exec1("select exists (select from only " + table.quoted() + ")")[0].as<bool>();
      });
    } catch (const Error& error) {
      if (error.sqlstate().empty()) throw;  // the connection
      unseen_[table] = "; could not be looked at: " + error.describe();
      return true;
    }
  }

  // The fence closes their tables, too, and the flip would open them on the target, under their stream.
  void look_at_others() {
    std::map<std::string, std::vector<std::string>> others;
    pg::control(Side::target, "looking for other replicas", [&] {
      pqxx::read_transaction tx(target_);
      for (auto row : tx.exec_params(
               "select t.replica, t.schema_name, t.table_name from pgbaton.table_state t join pgbaton.replica r on "
               "r.name = t.replica and r.generation = t.generation join pgbaton.replica own on own.source_system_id = "
               "r.source_system_id and own.source_database = r.source_database where own.name = $1 and r.name <> $1 "
               "and r.direction <> $2 order by 1, 2, 3",
               replica_, std::string(state::kSwitched))) {
        const QualifiedName table{row[1].as<std::string>(), row[2].as<std::string>()};
        if (here_.contains(table) && told_.insert(table).second)
          others[row[0].as<std::string>()].push_back(table.quoted());
      }
    });
    for (const auto& [name, tables] : others)
      findings_.push_back(
          {"replica.other", Severity::blocker, "replica " + name,
           fmt::format("has {}{} of the same two databases, which are switched over as a whole", tables.front(),
                       tables.size() == 1 ? "" : fmt::format(" and {} more", tables.size() - 1)),
           fmt::format("End that replica first: `pgbaton finish` or `pgbaton drop`, with --name {}.", name)});
  }

  void look_outside() {
    for (const auto& doubt : doubts_) {
      if (doubt.kind != state::DoubtKind::outside || !here_.contains(doubt.table)) continue;
      if (!told_.insert(doubt.table).second) continue;
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

  void look_at_inserts_only() {
    if (const auto compared = carried_in_part(options_, source_, tables_); !compared.empty())
      std::ranges::move(compare_in_part(options_, compared, false, stop_), std::back_inserter(findings_));
    for (const auto& table : tables_)
      if (table.inserts_only && table.phase != state::TablePhase::skipped && may_stay_behind(options_, table.name))
        add("table.insert_only", table.name, "of it only INSERT and TRUNCATE are carried", "");
  }

  const Options& options_;
  pg::Control &source_, &target_;
  const std::string replica_;
  const std::vector<state::TableState> tables_;
  std::vector<state::Doubt> doubts_;
  std::set<QualifiedName> here_, there_, known_, told_;
  std::map<QualifiedName, std::string> unseen_;  // why
  std::vector<Finding> findings_;
  std::stop_token stop_;
};

// What a comparison says against the flip.
std::vector<Finding> against(const verify::Report& report, const std::string& names, Milliseconds limit) {
  std::vector<Finding> findings;
  Milliseconds spent{0};
  for (const auto& table : report.tables) {
    spent += table.time / 2;
    if (table.differences == 0) continue;
    findings.push_back(blocker_in_part(
        table.name.quoted(),
        fmt::format("differs in {}: of a table without a usable identity only INSERT and TRUNCATE are carried",
                    table.differences == 1 ? "one row" : fmt::format("{} rows", table.differences)),
        in_part_remedy("pgbaton resync " + table.name.quoted(), table.name.quoted())));
  }
  for (const auto& table : report.not_compared)
    findings.push_back(blocker_in_part(table.name.quoted(), "could not be compared: " + table.reason,
                                       in_part_remedy("pgbaton resync " + table.name.quoted(), table.name.quoted())));
  if (const auto took = std::min(spent, report.time); took > limit)
    findings.push_back(blocker_in_part(
        names,
        fmt::format("takes {} to compare: of it only inserts are carried, so it is compared once more in the pause, "
                    "where writers wait {} for it",
                    format_duration(took), format_duration(limit)),
        in_part_remedy("Raise verify-limit (they wait ten times that)", names)));
  return findings;
}

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

std::vector<Count> carried_in_part(const Options& options, pg::Control& source,
                                   const std::vector<state::TableState>& tables) {
  std::set<QualifiedName> in_part;
  for (const auto& table : tables)
    if (table.inserts_only && table.phase != state::TablePhase::skipped && !may_stay_behind(options, table.name))
      in_part.insert(table.name);
  std::vector<Count> found;
  if (in_part.empty()) return found;
  for (const auto& table : catalog::load_tables(source))
    if (in_part.contains(table.name)) found.push_back({table.name, table.bytes});
  return found;
}

std::vector<Finding> compare_in_part(const Options& options, const std::vector<Count>& tables, bool fenced,
                                     const std::stop_token& stop) {
  const auto limit = options.settings.verify_limit * 10;
  const auto names = names_of(tables);
  auto request = options.verify;
  request.filter = {};
  for (const auto& one : tables) request.filter.include_tables.push_back(one.table.quoted());
  // A cut waits for open write transactions; the fence has ended them.
  request.timeout = fenced ? limit : limit + options.settings.transaction_wait;
  try {
    log::info("comparing what only inserts are carried of: {}", names);
    return against(verify::run(request, stop), names, limit);
  } catch (const Error& error) {
    const auto bytes = std::accumulate(tables.begin(), tables.end(), std::uint64_t{0},
                                       [](auto sum, const Count& one) { return sum + one.bytes; });
    if (!fenced && error.kind() == ErrorKind::timed_out &&
        bytes <= kBytesPerSecond * static_cast<std::uint64_t>(limit.count()) / 1000)
      return {{"table.insert_only", Severity::warning, names,
               "could not be compared while nobody waits, only in the pause: " + error.describe(), ""}};
    return {blocker_in_part(
        names, fmt::format("could not be compared in {}: {}", format_duration(*request.timeout), error.describe()),
        in_part_remedy(
            error.kind() == ErrorKind::timed_out ? "Raise verify-limit (writers wait ten times that)" : error.hint(),
            names))};
  }
}

std::vector<Finding> look_left_behind(const Options& options, pg::Control& source, pg::Control& target,
                                      const state::Replica& replica, const std::stop_token& stop) {
  return LeftBehind(options, source, target, replica).run(stop);
}

}  // namespace pgbaton::switchover
