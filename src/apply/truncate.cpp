#include "truncate.hpp"

#include "guard.hpp"
#include "reject.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace pgbaton::apply {

namespace {

// Everything in the table is older in an in-order stream. Otherwise rows of newer changes stay; those of the same LSN
// were written by the truncating transaction, and what it wrote afterwards comes again behind this change.
void delete_older(RowSession& session, const Change& change, const TargetTable& table) {
  Statement statement;
  const bool guarded = guard::is_compared(table.guard);
  const std::string lsn = guarded ? statement.bind_lsn(change.commit_lsn) : std::string();
  statement.sql =
      fmt::format("DELETE FROM {} AS t WHERE true{}", session.targets.scope(table), guard::not_newer(table, "t", lsn));
  session.write(change, statement);
}

// The entries of what is gone become tombstones: only the expiry removes any.
void bury_entries(RowSession& session, const Change& change, const TargetTable& table) {
  if (table.guard != GuardMode::ledger) return;
  Statement statement;
  const std::string lsn = statement.bind_lsn(change.commit_lsn);
  statement.sql = fmt::format("UPDATE {} SET deleted = true WHERE commit_lsn <= {} AND NOT deleted", table.ledger, lsn);
  session.run(change, statement);
}

// 0 rows: the table is not recorded (no replica's state around), or has a higher floor already.
void raise_floor(RowSession& session, const Change& change, const TargetTable& table) {
  Statement statement;
  const std::string lsn = statement.bind_lsn(change.commit_lsn);
  const std::string replica = statement.bind_view(session.replica, "text");
  const std::string schema = statement.bind_view(table.name.schema, "text");
  const std::string name = statement.bind_view(table.name.name, "text");
  statement.sql = fmt::format(
      "UPDATE pgbaton.table_state SET floor_lsn = {0} WHERE replica = {1} AND schema_name = {2} AND table_name = {3} "
      "AND "
      "floor_lsn < {0}",
      lsn, replica, schema, name);
  session.run(change, statement);
}

// What RESTART IDENTITY does, for tables that had to be emptied by DELETE.
void restart_sequences(RowSession& session, const Change& change, const TargetTable& table) {
  Statement look;
  look.sql =
      "SELECT format('ALTER SEQUENCE %s RESTART', s.oid::regclass) FROM pg_depend d JOIN pg_class s ON s.oid = d.objid "
      "WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') AND "
      "s.relkind = 'S' AND d.refobjid = to_regclass(" +
      look.bind_view(table.quoted, "text") + ")";
  const pg::Result found = session.run(change, look);
  for (int row = 0; row < found.rows(); ++row) {
    Statement restart;
    restart.sql = found.text(row, 0);
    session.run(change, restart);
  }
}

// One TRUNCATE for all that the source listed, never CASCADE: foreign keys among the listed tables are fine.
void truncate_together(RowSession& session, const Change& change, const std::vector<const TargetTable*>& tables) {
  std::vector<std::string_view> scopes;
  for (const TargetTable* table : tables) scopes.push_back(session.targets.scope(*table));
  Statement statement;
  statement.sql =
      fmt::format("TRUNCATE {}{}", fmt::join(scopes, ", "), change.restart_identity ? " RESTART IDENTITY" : "");
  session.connection.exec("SAVEPOINT pgbaton_truncate");
  try {
    session.run(change, statement);
  } catch (const Error& error) {
    // 0A000: a table outside the list references one inside. Foreign keys block TRUNCATE even for replicas.
    if (error.sqlstate() != "0A000") throw;
    session.connection.exec("ROLLBACK TO SAVEPOINT pgbaton_truncate");
    for (const TargetTable* table : tables) {
      delete_older(session, change, *table);
      if (change.restart_identity) restart_sequences(session, change, *table);
    }
  }
  session.connection.exec("RELEASE SAVEPOINT pgbaton_truncate");
}

}  // namespace

void write_truncate(RowSession& session, const Change& change) {
  std::vector<const TargetTable*> together;
  for (const TargetTable* table : change.truncated) {
    if (table->delivery == Delivery::in_order)
      together.push_back(table);
    else
      delete_older(session, change, *table);
  }
  if (!together.empty()) truncate_together(session, change, together);
  for (const TargetTable* table : change.truncated) {
    bury_entries(session, change, *table);
    raise_floor(session, change, *table);
  }
}

}  // namespace pgbaton::apply
