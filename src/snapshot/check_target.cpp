#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/store.hpp>

#include <map>
#include <set>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

// The same server is fine, the same database is not. Without the right to read the system identifier the moment of the
// server's start, to the microsecond, tells servers apart.
void check_same_database(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  auto started = [](pg::Control& connection) {
    pqxx::nontransaction tx(connection);
    return tx.exec1("select pg_postmaster_start_time()::text")[0].as<std::string>();
  };
  bool same_server = source.server.system_identifier == target.server.system_identifier &&
                     started(*source.connection) == started(*target.connection);
  const auto& replaced = options.new_database ? options.new_database->live : target.server.database;
  if (same_server && source.server.database == replaced)
    findings.blocker("pair.same_database", source.server.database, "source and target are the same database",
                     "Look at --source and --target: the target must be another database.");
}

void check_new_tables(const CheckOptions& options, const TablePlan& plan, const std::vector<catalog::Table>& existing,
                      Findings& findings) {
  if (options.clone.schema == SchemaMode::none) return;
  std::set<QualifiedName> names;
  for (const auto& table : existing) names.insert(table.name);
  std::vector<std::string> present;
  for (const auto& job : plan.jobs)
    if (names.contains(job.table.name)) present.push_back(job.table.name.quoted());
  if (!present.empty())
    findings.blocker(
        "target.table_exists", first_few(present), "the target has these tables of the source already",
        "Clone into an empty database, or leave them out with --exclude-table. When they are empty on purpose: "
        "--schema none. Tables that hold rows belong to somebody: drop them only when nobody needs them.");
  else if (!existing.empty())
    findings.note("target.other_tables", "target",
                  fmt::format("{} other tables exist there; they are left alone", existing.size()));
}

// Two replicas would each hold the other's rows for a fault of their own; said beside the rows that are there already.
void check_other_replicas(const CheckOptions& options, pg::Control& target, const TablePlan& plan, Findings& findings) {
  pqxx::nontransaction tx(target);
  if (tx.exec1("select to_regclass('pgbaton.table_state') is null")[0].as<bool>()) return;
  std::set<QualifiedName> wanted;
  for (const auto& job : plan.jobs)
    if (job.state.phase != state::TablePhase::skipped) wanted.insert(job.table.name);
  std::map<std::string, std::vector<std::string>> by_replica;
  for (auto row : tx.exec_params("select replica, schema_name, table_name from pgbaton.table_state where replica <> $1 "
                                 "and replica !~ '__' and phase <> 'skipped' order by 1, 2, 3",
                                 options.clone.names.name)) {
    const QualifiedName name{row[1].as<std::string>(), row[2].as<std::string>()};
    if (wanted.contains(name)) by_replica[row[0].as<std::string>()].push_back(name.quoted());
  }
  for (const auto& [replica, tables] : by_replica)
    findings.blocker(
        "target.table_of_replica", first_few(tables),
        fmt::format("replica {} of this target has these tables", replica),
        fmt::format("Go on with that one (--name {0}), leave the tables out with --exclude-table, or remove "
                    "it first: pgbaton drop --name {0}.",
                    replica));
}

std::string what_clone_does(state::Phase phase) {
  switch (phase) {
    case state::Phase::none:
    case state::Phase::creating:
    case state::Phase::copying:
      return "`pgbaton clone` with the same options goes on with its copy, tables that are complete stay; --restart "
             "begins anew";
    case state::Phase::indexing:
      return "every table is copied; `pgbaton clone` with the same options goes on with indexes and constraints";
    case state::Phase::streaming:
    case state::Phase::ready:
      return "nothing is left to copy; `pgbaton clone --follow` and `pgbaton follow` go on with its changes; --restart "
             "empties its tables and begins anew";
  }
  return "";
}

// Only for a replica that exists: what a clone of this name would do to it.
void check_replica(const CheckOptions& options, CheckSide& target, Findings& findings) {
  if (!options.resume) return;
  const auto& name = options.clone.names.name;
  auto replica = state::Store(*target.connection).load_replica(name);
  if (!replica) return;
  auto writer = state::Lease::held(*target.connection, name)
                    ? fmt::format("its writer runs on {}, pid {}", replica->writer_host, replica->writer_pid)
                    : std::string("no writer runs");
  findings.note("target.replica", name,
                fmt::format("a replica of this name exists, phase {}, {}: {}", state::to_string(replica->phase), writer,
                            what_clone_does(replica->phase)));
}

// Row security that is forced holds for the owner, too: changes would touch no row.
void check_forced_row_security(CheckSide& source, CheckSide& target, const TablePlan& plan, Findings& findings) {
  {
    pqxx::nontransaction tx(*target.connection);
    if (tx.exec1("select rolsuper or rolbypassrls from pg_roles where rolname = current_user")[0].as<bool>()) return;
  }
  pqxx::nontransaction tx(*source.connection);
  for (auto row : tx.exec_params("select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = "
                                 "c.relnamespace where c.relrowsecurity and c.relforcerowsecurity and c.oid = "
                                 "any($1::oid[]) order by 1, 2",
                                 oid_array(oids_of(plan))))
    findings.blocker("target.row_security", QualifiedName{row[0].as<std::string>(), row[1].as<std::string>()}.quoted(),
                     "row security is forced and would hide rows from the target's role",
                     fmt::format("ALTER ROLE {} BYPASSRLS; on the target.", quote_identifier(target.server.user)));
}

}  // namespace

void check_target(const CheckOptions& options, CheckSide& target, Findings& findings) {
  const auto& server = target.server;
  if (!options.new_database) check_replica(options, target, findings);
  if (server.major() < 12)
    findings.blocker("target.version", "target", "PostgreSQL " + server.version_text + " is too old",
                     "Majors 12 to 18 are supported.");
  if (server.in_recovery)
    findings.blocker("target.in_recovery", "target", "the server is a standby and cannot be written",
                     "Give the primary's connection string.");
  if (!options.resume && !options.new_database && !server.may_create_in_database)
    findings.blocker("target.create_right", server.user, "the role may not create schemas in the target database",
                     fmt::format("GRANT CREATE ON DATABASE {} TO {};", quote_identifier(server.database),
                                 quote_identifier(server.user)));
  bool replica_role = pg::control(Side::target, "trying session_replication_role",
                                  [&] { return catalog::may_set_replica_role(*target.connection, Side::target); });
  if (replica_role)
    findings.note("target.replica_role", server.user,
                  "changes are applied under session_replication_role = replica: foreign keys and ordinary triggers do "
                  "not fire for them");
  else
    findings.warning(
        "target.replica_role", server.user,
        "the role may not set session_replication_role: foreign keys and triggers are created at `finish`",
        fmt::format("GRANT SET ON PARAMETER session_replication_role TO {}; (15 and newer), or a superuser.",
                    quote_identifier(server.user)));
}

void check_pair(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                Findings& findings) {
  check_same_database(options, source, target, findings);
  if (source.server.major() > target.server.major())
    findings.warning("pair.older_target", "target",
                     fmt::format("major {} is older than the source's {}: newer features may not fit",
                                 target.server.major(), source.server.major()),
                     "Use a target that is not older than the source.");
  if (options.resume) return;  // made already
  if (options.new_database)
    return pg::control(Side::target, "comparing both sides", [&] {
      if (options.clone.schema == SchemaMode::full) check_needs(options, source, target, plan, findings);
      check_forced_row_security(source, target, plan, findings);
    });
  pg::control(Side::target, "comparing both sides", [&] {
    check_locale(source, target, plan, findings);
    if (options.clone.schema == SchemaMode::full) check_needs(options, source, target, plan, findings);
    const auto existing = catalog::load_tables(*target.connection, {}, Side::target);
    check_other_replicas(options, *target.connection, plan, findings);
    check_new_tables(options, plan, existing, findings);
    check_forced_row_security(source, target, plan, findings);
    check_own_tables(options, source, target, plan, existing, findings);
  });
}

}  // namespace pgbaton::snapshot
