#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include <array>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

// Of the tables that are copied, and of partitioned ones; for `= any($1::oid[])`.
std::string oid_array(const TablePlan& plan) {
  std::string text = "{";
  for (const auto& job : plan.jobs)
    if (job.state.phase != state::TablePhase::skipped || job.table.kind == 'p')
      text += (text.size() > 1 ? "," : "") + std::to_string(job.table.oid);
  return text + "}";
}

std::string quoted(const pqxx::field& schema, const pqxx::field& name) {
  return QualifiedName{schema.as<std::string>(), name.as<std::string>()}.quoted();
}

void check_keyless(const CheckOptions& options, const copy::CopyJob& job, Findings& findings) {
  const auto& table = job.table;
  if (table.kind == 'p' || table.persistence != 'p' || table.identity != catalog::Identity::unusable) return;
  auto alter = fmt::format("ALTER TABLE {} REPLICA IDENTITY FULL (or USING INDEX)", table.name.quoted());
  std::string_view fate;
  switch (options.clone.keyless) {
    case Keyless::insert_only:
      fate =
          "only its INSERTs and TRUNCATEs are replicated; UPDATE and DELETE stay possible on the source and are "
          "missing "
          "on the target";
      break;
    case Keyless::full:
      fate = "the clone sets REPLICA IDENTITY FULL on it";
      break;
    case Keyless::exclude:
      fate = "its rows are left out";
      break;
  }
  findings.warning("table.no_identity", table.name.quoted(),
                   fmt::format("no usable identity ({}): {}", table.identity_reason, fate),
                   "Add a primary key, or " + alter + ", or choose with --keyless.");
}

void check_kind(const copy::CopyJob& job, Findings& findings) {
  const auto& table = job.table;
  if (table.persistence == 'u')
    findings.warning("table.unlogged", table.name.quoted(),
                     "unlogged: its changes are in no WAL, so its rows are neither copied nor streamed",
                     "ALTER TABLE … SET LOGGED to replicate it, or --exclude-table.");
  if (table.has_children)
    findings.note("table.inherited", table.name.quoted(),
                  "has children by inheritance: each is copied as its own table");
  if (job.state.phase == state::TablePhase::skipped || job.state.inserts_only) return;
  if (job.state.guard == state::GuardKind::none && table.kind == 'r')
    findings.note("table.guard", table.name.quoted(),
                  table.row_type_in_use ? "no guard column: its row type is used elsewhere" : "no guard column");
}

void check_rights(pg::Control& source, const CheckOptions& options, const TablePlan& plan, Findings& findings) {
  pqxx::nontransaction tx(source);
  auto rows = tx.exec_params(
      "select n.nspname as schema, c.relname as name, "
      "has_table_privilege(c.oid, 'SELECT') and has_schema_privilege(n.oid, 'USAGE') as may_read, "
      "pg_has_role(c.relowner, 'USAGE') as owns, pg_get_userbyid(c.relowner) as owner, "
      "c.relrowsecurity and (c.relforcerowsecurity or not pg_has_role(c.relowner, 'USAGE')) and "
      "not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) as filtered "
      "from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = any($1::oid[]) order by 1, 2",
      oid_array(plan));
  for (auto row : rows) {
    auto name = quoted(row["schema"], row["name"]);
    if (!row["may_read"].as<bool>())
      findings.blocker("table.select_right", name, "the role may not read it",
                       fmt::format("GRANT SELECT ON {} TO the role (and USAGE on its schema).", name));
    else if (row["filtered"].as<bool>())
      findings.blocker("table.row_security", name, "row security would hide rows from the copy",
                       "Use a role with BYPASSRLS.");
    if (options.clone.publication.empty() && !row["owns"].as<bool>())
      findings.blocker("table.owner", name, "only its owner can add it to a publication",
                       fmt::format("GRANT {} TO the role, or name a publication with --publication.",
                                   row["owner"].as<std::string>()));
  }
}

// Relations and objects that logical decoding does not carry.
void check_other_kinds(pg::Control& source, const CheckOptions& options, Findings& findings) {
  pqxx::nontransaction tx(source);
  for (auto row : tx.exec("select c.relkind::text, n.nspname, c.relname "
                          "from pg_class c join pg_namespace n on n.oid = c.relnamespace "
                          "where c.relkind in ('f', 'm') and n.nspname not in ('pg_catalog', 'information_schema') "
                          "and c.relpersistence <> 't' order by 2, 3")) {
    auto name = quoted(row[1], row[2]);
    if (row[0].as<std::string>() == "f")
      findings.note("table.foreign", name, "foreign table: its definition is copied, its rows stay where they are");
    else
      findings.note("table.matview", name, "materialized view: filled on the target after the copy, not streamed");
  }
  auto large_objects = tx.exec1("select count(*) from pg_largeobject_metadata")[0].as<std::int64_t>();
  if (large_objects > 0) {
    auto message = fmt::format("{} large objects: they are in no publication and are not copied", large_objects);
    // Part of a database that was chosen by name may well do without them; a whole one would lose data.
    if (options.clone.filter.empty())
      findings.blocker("source.large_objects", "pg_largeobject", message,
                       "Move them into bytea columns or unlink them; with --include-schema or --include-table only the "
                       "named tables are copied.");
    else
      findings.warning("source.large_objects", "pg_largeobject", message,
                       "Copy them by other means if they are needed.");
  }
}

void check_constraints(pg::Control& source, const TablePlan& plan, Findings& findings) {
  pqxx::nontransaction tx(source);
  for (auto row : tx.exec_params("select n.nspname, c.relname, quote_ident(k.conname) "
                                 "from pg_constraint k join pg_class c on c.oid = k.conrelid "
                                 "join pg_namespace n on n.oid = c.relnamespace "
                                 "where k.condeferrable and k.contype in ('p', 'u', 'x') and c.oid = any($1::oid[]) "
                                 "order by 1, 2, 3",
                                 oid_array(plan)))
    findings.note("table.deferrable_key", quoted(row[0], row[1]),
                  "constraint " + row[2].as<std::string>() +
                      " is deferrable: it is not enforced while changes are applied, and it identifies no rows");
  for (auto row : tx.exec_params("select n.nspname, c.relname, quote_ident(t.tgname) "
                                 "from pg_trigger t join pg_class c on c.oid = t.tgrelid "
                                 "join pg_namespace n on n.oid = c.relnamespace "
                                 "where t.tgenabled in ('A', 'R') and not t.tgisinternal and c.oid = any($1::oid[]) "
                                 "order by 1, 2, 3",
                                 oid_array(plan)))
    findings.warning("table.always_trigger", quoted(row[0], row[1]),
                     "trigger " + row[2].as<std::string>() +
                         " is ENABLE ALWAYS or REPLICA: it fires on the target for every applied change, too",
                     "Make sure that this is wanted; its effects are replicated already.");
}

}  // namespace

void check_source_tables(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings) {
  pg::Control& connection = *source.connection;
  if (plan.jobs.empty())
    findings.warning("source.no_tables", "source", "there is no table to copy",
                     "Look at the database name and filters.");
  for (const auto& job : plan.jobs) {
    check_keyless(options, job, findings);
    check_kind(job, findings);
  }
  check_rights(connection, options, plan, findings);
  check_other_kinds(connection, options, findings);
  check_constraints(connection, plan, findings);
}

}  // namespace pgbaton::snapshot
