#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/source/try_details.hpp>

#include <algorithm>

#include "check_parts.hpp"
#include "given_publication.hpp"

namespace pgbaton::snapshot {

namespace {

std::string quoted(const pqxx::field& schema, const pqxx::field& name) {
  return QualifiedName{schema.as<std::string>(), name.as<std::string>()}.quoted();
}

// Only what would really help: a table has one primary key at most, and FULL is no identity beside generated columns.
std::string identity_remedy(const catalog::Table& table) {
  const auto alter = "ALTER TABLE " + table.name.quoted();
  if (table.replica_identity == 'n' && !table.unique_keys.empty()) return alter + " REPLICA IDENTITY DEFAULT;";
  if (!table.unique_keys.empty() ||
      std::ranges::any_of(table.columns, [](const catalog::Column& column) { return column.generated != ' '; }))
    return alter + " REPLICA IDENTITY USING INDEX …; with a unique index on NOT NULL columns that are not generated.";
  if (table.identity_reason.find("deferrable") != std::string::npos) return alter + " REPLICA IDENTITY FULL;";
  return fmt::format("{0} ADD PRIMARY KEY (…); or {0} REPLICA IDENTITY FULL;", alter);
}

void check_keyless(const CheckOptions& options, const copy::CopyJob& job, Findings& findings) {
  const auto& table = job.table;
  if (table.kind == 'p' || table.persistence != 'p' || table.identity != catalog::Identity::unusable) return;
  std::string_view fate;
  switch (options.clone.keyless) {
    case Keyless::insert_only:
      fate =
          "only its INSERTs and TRUNCATEs are replicated; UPDATE and DELETE stay possible on the source and are "
          "missing on the target";
      break;
    case Keyless::full: {
      auto altered = table;
      fate = catalog::assume_full_identity(altered)
                 ? "the clone sets REPLICA IDENTITY FULL on it, until the replica goes"
                 : "REPLICA IDENTITY FULL is of no use with a generated column, so only its INSERTs and TRUNCATEs are "
                   "replicated";
      break;
    }
    case Keyless::exclude:
      fate = "its rows are left out";
      break;
  }
  findings.warning("table.no_identity", table.name.quoted(),
                   fmt::format("no usable identity ({}): {}", table.identity_reason, fate),
                   identity_remedy(table) + " Or choose: --keyless insert-only|full|exclude.");
}

void check_kind(const copy::CopyJob& job, Findings& findings) {
  const auto& table = job.table;
  if (table.persistence == 'u')
    findings.warning("table.unlogged", table.name.quoted(),
                     "unlogged: its changes are in no WAL, so its rows are neither copied nor streamed",
                     fmt::format("ALTER TABLE {} SET LOGGED; or --exclude-table.", table.name.quoted()));
  if (table.has_children)
    findings.note("table.inherited", table.name.quoted(),
                  "has children by inheritance: each is copied as its own table");
}

void check_partitioned(const catalog::Table& table, const TablePlan& plan, int version, Findings& findings) {
  if (table.kind != 'p' || table.root_oid != 0) return;
  if (version < kFirstToPublishRoots)
    return findings.warning(
        "table.partitioned", table.name.quoted(),
        fmt::format("partitioned, its partitions are published one by one, because version {} publishes no partitioned "
                    "table: those attached later are not streamed",
                    version / 10000),
        "Make partitions that will be needed soon before the clone; `pgbaton clone --restart` takes in later ones.");
  const auto& published = plan.publications.tables;
  if (std::ranges::find(published, table.name) != published.end())
    return findings.note("table.partitioned", table.name.quoted(),
                         "partitioned, published at its root: partitions attached later are streamed, too");
  const auto why = table.identity == catalog::Identity::unusable ? table.identity_reason
                                                                 : "not all of its partitions are wanted or logged";
  findings.warning(
      "table.partitioned", table.name.quoted(),
      fmt::format("partitioned, its partitions are published one by one ({}): those attached later are "
                  "not streamed",
                  why),
      fmt::format("ALTER TABLE {} ADD PRIMARY KEY (…); with the partition key in it.", table.name.quoted()));
}

// One line for the usual case, and one for each table that gets no column.
void check_guards(const TablePlan& plan, Findings& findings) {
  std::vector<std::string> columns;
  for (const auto& job : plan.jobs) {
    const auto name = job.table.name.quoted();
    if (job.state.guard == state::GuardKind::column) columns.push_back(name);
    const auto found = plan.guard_reasons.find(job.table.oid);
    if (found == plan.guard_reasons.end()) continue;
    const bool ledger = job.state.guard == state::GuardKind::ledger;
    findings.note("table.guard", name,
                  fmt::format("{}: {}; {}", ledger ? "ledger" : "no guard column", found->second,
                              ledger ? "the keys that change are kept in a side table of schema pgbaton until `finish`"
                                     : "what is applied to it relies on the progress row alone"));
  }
  if (!columns.empty())
    findings.note(
        "table.guard_column", first_few(columns),
        fmt::format("{} column {} on the target until `finish`",
                    counted(static_cast<std::int64_t>(columns.size()), "table has", "tables have"), kGuardColumn));
}

void check_publication(pg::Control& source, const std::string& name, const TablePlan& plan, Findings& findings) {
  try {
    const auto given = verify_publication(source, name, plan.jobs, false);
    for (const auto& table : given.failing)
      findings.warning("source.publication", table.quoted(),
                       fmt::format("it has no identity, and publication {} has it with its UPDATEs: UPDATE and DELETE "
                                   "of it fail on the source",
                                   quote_identifier(name)),
                       fmt::format("ALTER PUBLICATION {} DROP TABLE {}; and put it into {} (publish = 'insert, "
                                   "truncate').",
                                   quote_identifier(name), table.quoted(), quote_identifier(name + "__ins")));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::preflight) throw;
    findings.blocker("source.publication", quote_identifier(name), error.message(), error.hint());
  }
}

void check_rights(pg::Control& source, const CheckOptions& options, const std::string& role, const TablePlan& plan,
                  Findings& findings) {
  pqxx::nontransaction tx(source);
  auto rows = tx.exec_params(
      "select n.nspname as schema, c.relname as name, "
      "has_table_privilege(c.oid, 'SELECT') and has_schema_privilege(n.oid, 'USAGE') as may_read, "
      "pg_has_role(c.relowner, 'USAGE') as owns, pg_get_userbyid(c.relowner) as owner, "
      "c.relrowsecurity and (c.relforcerowsecurity or not pg_has_role(c.relowner, 'USAGE')) and "
      "not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) as filtered "
      "from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = any($1::oid[]) order by 1, 2",
      oid_array(oids_of(plan)));
  for (auto row : rows) {
    auto name = quoted(row["schema"], row["name"]);
    if (!row["may_read"].as<bool>())
      findings.blocker("table.select_right", name, "the role may not read it",
                       fmt::format("GRANT USAGE ON SCHEMA {} TO {}; GRANT SELECT ON {} TO {};",
                                   quote_identifier(row["schema"].as<std::string>()), role, name, role));
    else if (row["filtered"].as<bool>())
      findings.blocker("table.row_security", name, "row security would hide rows from the copy",
                       fmt::format("ALTER ROLE {} BYPASSRLS;", role));
    if (options.clone.publication.empty() && !row["owns"].as<bool>())
      findings.blocker("table.owner", name, "only its owner can add it to a publication",
                       fmt::format("GRANT {} TO {}; or name a publication with --publication.",
                                   quote_identifier(row["owner"].as<std::string>()), role));
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
  auto temporary = tx.exec1("select count(*) from pg_class where relpersistence = 't' and relkind in ('r', 'p')");
  if (auto count = temporary[0].as<std::int64_t>(); count > 0)
    findings.note("source.temporary_tables", "pg_temp",
                  fmt::format("{} of living sessions, never copied", counted(count, "temporary table")));
  std::vector<std::string> logical;
  for (auto row :
       tx.exec("select 'publication ' || quote_ident(pubname) from pg_publication where pubname not like "
               "'pgbaton%' union all select 'subscription ' || quote_ident(s.subname) from pg_subscription s "
               "join pg_database d on d.oid = s.subdbid and d.datname = current_database() order by 1"))
    logical.push_back(row[0].as<std::string>());
  if (!logical.empty())
    findings.note("source.logical_replication", first_few(logical),
                  "publications and subscriptions of the source are not made on the target");
  auto large_objects = tx.exec1("select count(*) from pg_largeobject_metadata")[0].as<std::int64_t>();
  if (large_objects > 0) {
    auto message = fmt::format("{}, in no publication and not copied", counted(large_objects, "large object"));
    // Part of a database that was chosen by name may well do without them; a whole one would lose data.
    if (options.clone.filter.empty())
      findings.blocker("source.large_objects", "pg_largeobject", message,
                       "Move them into bytea columns, then SELECT lo_unlink(oid) FROM pg_largeobject_metadata; with "
                       "--include-schema or --include-table only the "
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
                                 oid_array(oids_of(plan))))
    findings.note("table.deferrable_key", quoted(row[0], row[1]),
                  "constraint " + row[2].as<std::string>() +
                      " is deferrable: it is not enforced while changes are applied, and it identifies no rows");
  for (auto row : tx.exec_params("select n.nspname, c.relname, quote_ident(t.tgname) "
                                 "from pg_trigger t join pg_class c on c.oid = t.tgrelid "
                                 "join pg_namespace n on n.oid = c.relnamespace "
                                 "where t.tgenabled in ('A', 'R') and not t.tgisinternal and c.oid = any($1::oid[]) "
                                 "order by 1, 2, 3",
                                 oid_array(oids_of(plan))))
    findings.warning(
        "table.always_trigger", quoted(row[0], row[1]),
        "trigger " + row[2].as<std::string>() +
            " is ENABLE ALWAYS or REPLICA: it fires on the target for every applied change, too",
        fmt::format(
            "What it writes is replicated already. If it shall not fire: clone without --follow, ALTER TABLE {} "
            "DISABLE TRIGGER {}; on the target, then follow.",
            quoted(row[0], row[1]), row[2].as<std::string>()));
}

// What `tables` of the configuration says of some of them: the source is asked as the clone will ask it. A session that
// may write is needed for what is rolled back; rights that are missing are other findings.
void check_choices(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings) {
  if (plan.publications.details.empty() || source.server.in_recovery) return;
  auto connection = pg::open_control(options.clone.source, "check");
  for (const auto& refused : source::try_details(*connection, plan.publications)) {
    if (refused.sqlstate() == "42501") continue;
    if (refused.kind() == ErrorKind::timed_out)
      findings.warning("table.choice_untried", refused.table(),
                       "whether the source takes what `tables` says of it is not known: " + refused.message(),
                       refused.hint());
    else
      findings.blocker("table.choice", refused.table(), refused.message(), refused.hint());
  }
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
    check_partitioned(job.table, plan, connection.server_version(), findings);
  }
  check_guards(plan, findings);
  if (!options.clone.publication.empty()) check_publication(connection, options.clone.publication, plan, findings);
  check_rights(connection, options, quote_identifier(source.server.user), plan, findings);
  check_other_kinds(connection, options, findings);
  check_constraints(connection, plan, findings);
  check_choices(options, source, plan, findings);
}

}  // namespace pgbaton::snapshot
