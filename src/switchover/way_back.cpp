// Whether there can be a way back.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/server.hpp>

#include <pgbaton/state/switchover.hpp>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

using snapshot::Finding;
using snapshot::Severity;

struct Reason {
  std::string object, message, remedy;
};

bool owns_all(pg::Control& target, const std::vector<state::TableState>& tables) {
  return pg::control(Side::target, "looking for owners", [&] {
    pqxx::nontransaction tx(target);
    for (const auto& table : tables) {
      if (table.phase == state::TablePhase::skipped) continue;
      if (!tx.exec_params("select from pg_catalog.pg_class where oid = to_regclass($1) and not "
                          "pg_catalog.pg_has_role(relowner, 'USAGE')",
                          table.name.quoted())
               .empty())
        return false;
    }
    return true;
  });
}

std::vector<Reason> reasons(const Options& options, pg::Control& source, pg::Control& target,
                            const std::vector<state::TableState>& tables) {
  std::vector<Reason> found;
  const auto to = catalog::load_server(source, Side::source), from = catalog::load_server(target, Side::target);
  if (from.wal_level != "logical")
    found.push_back({"target", fmt::format("wal_level is {}", from.wal_level),
                     "ALTER SYSTEM SET wal_level = logical; then restart the target."});
  // One for the slot that stays, one for the cut of a later verify.
  if (from.used_slots + 1 > from.max_replication_slots)
    found.push_back({"target", "no replication slot is free", "Raise max_replication_slots, and restart the target."});
  if (from.used_senders + 1 > from.max_wal_senders)
    found.push_back({"target", "no WAL sender is free", "Raise max_wal_senders, and restart the target."});
  if (!from.superuser && !from.may_replicate)
    found.push_back({"target", fmt::format("role {} may not replicate", from.user),
                     fmt::format("ALTER ROLE {} REPLICATION;", quote_identifier(from.user))});
  if (!from.may_create_in_database || !owns_all(target, tables))
    found.push_back({"target", fmt::format("role {} may not publish the tables", from.user),
                     "Let it own the tables, and GRANT CREATE ON DATABASE."});
  if (!to.may_create_in_database)
    found.push_back(
        {"source", fmt::format("role {} may not create schema pgbaton there", to.user), "GRANT CREATE ON DATABASE."});
  if (!catalog::may_set_replica_role(source, Side::source))
    found.push_back({"source",
                     fmt::format("role {} may not set session_replication_role: triggers of the application would fire "
                                 "a second time",
                                 to.user),
                     "GRANT SET ON PARAMETER session_replication_role (15 and newer), or connect as a superuser."});
  state::Store other(source);
  if (const auto row = other.load_replica(options.names.name); row && row->direction != state::kSwitched)
    found.push_back({"source", fmt::format("a replica named {} streams into it already", row->name),
                     "Give this replica another --name."});
  return found;
}

}  // namespace

std::vector<Finding> look_at_way_back(const Options& options, pg::Control& source, pg::Control& target,
                                      const std::vector<state::TableState>& tables) {
  std::vector<Finding> findings;
  if (options.settings.way_back == "no") return findings;
  const bool wanted = options.settings.way_back == "yes";
  for (auto& reason : reasons(options, source, target, tables))
    findings.push_back({std::string(kNoWayBack), wanted ? Severity::blocker : Severity::note, std::move(reason.object),
                        "there would be no way back: " + reason.message, std::move(reason.remedy)});
  if (!findings.empty()) return findings;
  for (const auto& table : tables)
    if (table.inserts_only && table.phase != state::TablePhase::skipped)
      findings.push_back({"way_back.part", Severity::warning, table.name.quoted(),
                          "has no usable identity: only its inserts come back, no updates and deletes",
                          "Give it a primary key, or REPLICA IDENTITY FULL, on both sides."});
  return findings;
}

}  // namespace pgbaton::switchover
