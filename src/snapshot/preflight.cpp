#include "preflight.hpp"

#include <pgbaton/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace pgbaton::snapshot {

namespace {

using state::TablePhase;

// "a, b, c and 17 more"
std::string first_few(const std::vector<QualifiedName>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) text += (i ? ", " : "") + names[i].quoted();
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

// Names and kinds.
std::map<QualifiedName, char> tables_on_target(pg::Control& target) {
  std::map<QualifiedName, char> tables;
  for (const auto& table : catalog::load_tables(target, {}, Side::target)) tables.emplace(table.name, table.kind);
  return tables;
}

std::vector<QualifiedName> non_empty(pg::Control& target, const std::map<QualifiedName, char>& tables) {
  return pg::control(Side::target, "looking whether the target's tables are empty", [&] {
    std::vector<QualifiedName> found;
    pqxx::nontransaction tx(target);
    for (const auto& [name, kind] : tables)
      if (tx.exec1(fmt::format("select exists (select from {})", own_rows(name, kind)))[0].as<bool>())
        found.push_back(name);
    return found;
  });
}

void require_empty_tables(pg::Control& target, const TablePlan& plan) {
  const auto existing = tables_on_target(target);
  std::vector<QualifiedName> missing;
  std::map<QualifiedName, char> present;
  for (const auto& job : plan.jobs) {
    if (job.state.phase == TablePhase::skipped) continue;
    if (const auto found = existing.find(job.table.name); found != existing.end())
      present.insert(*found);
    else
      missing.push_back(job.table.name);
  }
  if (!missing.empty())
    throw Error(ErrorKind::preflight, "--schema none, but the target lacks " + first_few(missing))
        .side(Side::target)
        .hint("Create these tables, leave them out with --exclude-table, or use --schema full.");
  if (auto filled = non_empty(target, present); !filled.empty())
    throw Error(ErrorKind::preflight, "--schema none, but there are rows in the target's " + first_few(filled))
        .side(Side::target)
        .hint("Empty these tables, or leave them out with --exclude-table.");
}

}  // namespace

// Servers made from copies of one cluster share its system identifier; the moment of the start, to the microsecond,
// tells them apart.
void refuse_same_database(const Build& build) {
  if (build.source_server.system_identifier != build.target_server.system_identifier) return;
  if (build.source_server.database_oid != build.target_server.database_oid) return;
  auto started = [](pg::Control& connection, Side side) {
    return pg::control(side, "asking for the server's start", [&] {
      pqxx::nontransaction tx(connection);
      return tx.exec1("select pg_postmaster_start_time()::text")[0].as<std::string>();
    });
  };
  if (started(*build.source, Side::source) != started(*build.target, Side::target)) return;
  throw Error(ErrorKind::preflight,
              fmt::format("source and target are the same database ({})", build.source_server.database))
      .hint("Look at --source and --target: the target must be another database.");
}

void require_logical_source(const catalog::Server& source, bool slot_failover) {
  if (source.in_recovery)
    throw Error(ErrorKind::preflight, "the source is a standby")
        .side(Side::source)
        .hint("Give the primary's connection string.");
  if (source.wal_level != "logical")
    throw Error(ErrorKind::preflight, "wal_level is " + source.wal_level + " on the source, logical is needed")
        .side(Side::source)
        .hint("Set wal_level = logical and restart the source; `pgbaton check` lists what else is missing.");
  constexpr int kFailoverSlots = 17;
  if (slot_failover && source.major() < kFailoverSlots)
    throw Error(ErrorKind::preflight,
                fmt::format("PostgreSQL {} has no slots that standbys keep a copy of", source.major()))
        .side(Side::source)
        .hint("Leave --slot-failover out: after a failover of this source a new bootstrap is needed.");
}

void require_names_free(pg::Control& source, const CloneOptions& options, const source::PublicationPlan& plan) {
  auto refuse = [](std::string_view what, const std::string& name) {
    throw Error(ErrorKind::preflight,
                fmt::format("the source has a {} {} that this target's state does not know", what, name))
        .side(Side::source)
        .hint("It may belong to another replica: give another --name. If it is a remnant, drop it by hand.");
  };
  if (source::load_slot(source, options.names.base)) refuse("replication slot", options.names.base);
  if (!options.publication.empty()) return;
  if (source::publication_exists(source, plan.publication)) refuse("publication", plan.publication);
  if (!plan.publication_inserts.empty() && source::publication_exists(source, plan.publication_inserts))
    refuse("publication", plan.publication_inserts);
}

std::string own_rows(const QualifiedName& table, char kind) {
  return (kind == 'p' ? "" : "only ") + table.quoted();
}

void require_target_tables(pg::Control& target, const CloneOptions& options, const TablePlan& plan, bool restored) {
  if (options.replace_rows) return;
  if (options.schema == SchemaMode::none) return require_empty_tables(target, plan);
  if (restored) return;
  const auto existing = tables_on_target(target);
  std::vector<QualifiedName> there;
  for (const auto& job : plan.jobs)
    if (existing.contains(job.table.name)) there.push_back(job.table.name);
  if (there.empty()) return;
  throw Error(ErrorKind::preflight, "the target has tables of the source already: " + first_few(there))
      .side(Side::target)
      .hint(
          options.joins
              ? "Drop these on the target, then run the same command again."
              : "Clone into an empty database, or use --schema none when these tables exist and are empty on purpose.");
}

}  // namespace pgbaton::snapshot
