#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include <algorithm>
#include <set>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

std::set<std::string> texts(pg::Control& connection, const std::string& sql) {
  pqxx::nontransaction tx(connection);
  std::set<std::string> result;
  for (auto row : tx.exec(sql)) result.insert(row[0].as<std::string>());
  return result;
}

std::vector<std::string> missing(const std::set<std::string>& wanted, const std::set<std::string>& present) {
  std::vector<std::string> result;
  std::ranges::set_difference(wanted, present, std::back_inserter(result));
  return result;
}

// Owners and grantees of what is dumped. Objects of the bootstrap superuser have no row in pg_shdepend, so the owners
// of relations, schemas and functions are asked, too.
constexpr const char* kRolesUsed = R"(
select r.rolname from pg_shdepend d join pg_roles r on r.oid = d.refobjid
 where d.refclassid = 'pg_authid'::regclass and d.dbid = (select oid from pg_database where datname = current_database())
union
select pg_get_userbyid(c.relowner) from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton') and c.relkind in ('r','p','v','m','S','f')
union
select pg_get_userbyid(p.proowner) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname not in ('pg_catalog', 'information_schema', 'pgbaton'))";

// With --no-owner the grantees still count, and without privileges the owners: both off is what makes roles irrelevant.
void check_roles(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  const auto& schema = options.clone.schema_options;
  if (options.clone.schema == SchemaMode::none || (!schema.owners && !schema.privileges)) return;
  auto used = texts(*source.connection, kRolesUsed);
  for (const auto& role : missing(used, texts(*target.connection, "select rolname from pg_roles")))
    findings.blocker(
        "target.role_missing", quote_identifier(role),
        "the role owns objects or has rights on the source and does not exist on the target",
        fmt::format("CREATE ROLE {}; on the target, or use --no-owner --no-privileges.", quote_identifier(role)));
}

void check_extensions(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  if (options.clone.schema == SchemaMode::none) return;
  auto used = texts(*source.connection, "select extname from pg_extension");
  for (const auto& name : missing(used, texts(*target.connection, "select name from pg_available_extensions")))
    findings.blocker("target.extension_missing", quote_identifier(name),
                     "the extension is used on the source and cannot be installed on the target",
                     "Install its package on the target's machine.");
}

// The same server is fine, the same database is not. Without the right to read the system identifier the moment of the
// server's start, to the microsecond, tells servers apart.
void check_same_database(CheckSide& source, CheckSide& target, Findings& findings) {
  auto started = [](pg::Control& connection) {
    pqxx::nontransaction tx(connection);
    return tx.exec1("select pg_postmaster_start_time()::text")[0].as<std::string>();
  };
  bool same_server = source.server.system_identifier == target.server.system_identifier &&
                     started(*source.connection) == started(*target.connection);
  if (same_server && source.server.database == target.server.database)
    findings.blocker("pair.same_database", source.server.database, "source and target are the same database",
                     "Look at --source and --target: the target must be another database.");
}

void check_encodings(CheckSide& source, CheckSide& target, Findings& findings) {
  const auto& from = source.server.encoding;
  const auto& to = target.server.encoding;
  auto both = fmt::format("the source is {}, the target {}", from, to);
  if (from == "SQL_ASCII" || to == "SQL_ASCII")
    findings.blocker("pair.encoding", "encoding", both + ": bytes of no known encoding cannot be converted safely",
                     "Use databases with a real encoding; best the same on both sides.");
  else if (from != to)
    findings.warning("pair.encoding", "encoding", both + ": a character that the target lacks stops the copy",
                     "Create the target database with the source's encoding.");
}

std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kNamed ? text + fmt::format(" and {} more", names.size() - kNamed) : text;
}

bool holds_rows(pg::Control& target, const std::string& quoted_table) {
  pqxx::nontransaction tx(target);
  return tx.exec1("select exists (select from only " + quoted_table + ")")[0].as<bool>();
}

void check_tables(const CheckOptions& options, CheckSide& target, const TablePlan& plan, Findings& findings) {
  std::set<std::string> existing;
  for (const auto& table : catalog::load_tables(*target.connection, {}, Side::target))
    existing.insert(table.name.quoted());
  std::vector<std::string> present, absent, filled;
  for (const auto& job : plan.jobs) {
    auto name = job.table.name.quoted();
    if (!existing.contains(name)) {
      if (job.state.phase != state::TablePhase::skipped) absent.push_back(name);
      continue;
    }
    present.push_back(name);
    if (options.clone.schema == SchemaMode::none && job.table.kind == 'r' &&
        job.state.phase != state::TablePhase::skipped && holds_rows(*target.connection, name))
      filled.push_back(name);
  }
  if (options.clone.schema == SchemaMode::none) {
    if (!absent.empty())
      findings.blocker("target.table_missing", first_few(absent), "--schema none, but the target lacks these tables",
                       "Create them, leave them out with --exclude-table, or use --schema full.");
    if (!filled.empty())
      findings.blocker("target.table_not_empty", first_few(filled), "--schema none, but these tables hold rows",
                       "Empty them, or leave them out with --exclude-table.");
  } else if (!present.empty()) {
    findings.blocker("target.table_exists", first_few(present), "the target has these tables of the source already",
                     "Clone into an empty database; or --schema none when they exist and are empty on purpose.");
  } else if (!existing.empty()) {
    findings.note("target.other_tables", "target",
                  fmt::format("{} other tables exist there; they are left alone", existing.size()));
  }
}

}  // namespace

void check_target(const CheckOptions& options, CheckSide& target, Findings& findings) {
  const auto& server = target.server;
  if (server.major() < 12)
    findings.blocker("target.version", "target", "PostgreSQL " + server.version_text + " is too old",
                     "Majors 12 to 18 are supported.");
  if (server.in_recovery)
    findings.blocker("target.in_recovery", "target", "the server is a standby and cannot be written",
                     "Give the primary's connection string.");
  if (!options.resume && !server.may_create_in_database)
    findings.blocker("target.create_right", server.user, "the role may not create schemas in the target database",
                     fmt::format("GRANT CREATE ON DATABASE {} TO {};", quote_identifier(server.database),
                                 quote_identifier(server.user)));
  bool replica_role = pg::control(Side::target, "trying session_replication_role",
                                  [&] { return catalog::may_set_replica_role(*target.connection, Side::target); });
  if (!replica_role)
    findings.warning(
        "target.replica_role", server.user,
        "the role may not set session_replication_role: foreign keys and triggers are created at `finish`",
        fmt::format("GRANT SET ON PARAMETER session_replication_role TO {}; (15 and newer), or a superuser.",
                    quote_identifier(server.user)));
}

void check_pair(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                Findings& findings) {
  check_same_database(source, target, findings);
  check_encodings(source, target, findings);
  if (source.server.major() > target.server.major())
    findings.warning("pair.older_target", "target",
                     fmt::format("major {} is older than the source's {}: newer features may not fit",
                                 target.server.major(), source.server.major()),
                     "Use a target that is not older than the source.");
  if (options.resume) return;  // made already
  pg::control(Side::target, "comparing both sides", [&] {
    check_roles(options, source, target, findings);
    check_extensions(options, source, target, findings);
    check_tables(options, target, plan, findings);
  });
}

}  // namespace pgbaton::snapshot
