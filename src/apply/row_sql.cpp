#include "row_sql.hpp"

#include "guard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pgbaton/base/name.hpp>

#include <string>
#include <vector>

namespace pgbaton::apply {

namespace {

std::string text_of(const TargetColumn& column, const std::string& expression) {
  return as_text(expression, column.has_own_text_cast);
}

bool is_known(const wire::Value& value) {
  return value.kind != wire::ValueKind::unchanged;
}

std::string bind_column(Statement& statement, const TargetTable& table, wire::Tuple row, std::size_t i) {
  return statement.bind(row[i], table.columns[i].cast_type);
}

// "" without a guard, so that no parameter stays without use.
std::string bind_guard(Statement& statement, const RowTarget& target) {
  return guard::is_compared(target.table.guard) ? statement.bind_lsn(target.commit_lsn) : std::string();
}

std::vector<std::string> bind_key(Statement& statement, const TargetTable& table, wire::Tuple row) {
  std::vector<std::string> values;
  for (std::size_t i : table.key) values.push_back(bind_column(statement, table, row, i));
  return values;
}

// With a ledger, a statement enters the key of each row that it touched, and what it counts are these entries: one for
// one row. `write` must end with its condition, so that RETURNING can follow; `ctes` go before it.
void and_enter(Statement& statement, const RowTarget& target, wire::Tuple key_row, const std::string& lsn, bool deleted,
               std::string_view ctes = "", bool returns_itself = false) {
  if (target.table.guard != GuardMode::ledger) {
    if (!ctes.empty()) statement.sql = fmt::format("WITH {} {}", ctes, statement.sql);
    return;
  }
  const auto key = bind_key(statement, target.table, key_row);
  statement.sql =
      fmt::format("WITH {}{}written AS ({}{}) {}", ctes, ctes.empty() ? "" : ", ", statement.sql,
                  returns_itself ? "" : " RETURNING 1", guard::enter(target.table, key, lsn, deleted, " FROM written"));
}

std::string key_list(const TargetTable& table) {
  std::vector<std::string_view> names;
  for (std::size_t i : table.key) names.push_back(table.columns[i].quoted);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string match_key(Statement& statement, const TargetTable& table, wire::Tuple key_row) {
  std::vector<std::string> terms;
  for (std::size_t i : table.key)
    terms.push_back(fmt::format("t.{} {} {}", table.columns[i].quoted, table.columns[i].equals,
                                bind_column(statement, table, key_row, i)));
  return fmt::format("{}", fmt::join(terms, " AND "));
}

std::string on_conflict_clause(const TargetTable& table, OnConflict on_conflict) {
  switch (on_conflict) {
    case OnConflict::fail:
      return {};
    case OnConflict::nothing:
      return fmt::format(" ON CONFLICT ({}) DO NOTHING", key_list(table));
    case OnConflict::overwrite:
      break;
  }
  std::vector<std::string> assignments;
  for (const TargetColumn& c : table.columns)
    if (!c.is_key && !c.identity_always) assignments.push_back(fmt::format("{0} = EXCLUDED.{0}", c.quoted));
  const std::string excluded = "EXCLUDED." + guard::column(table.guard);
  const bool stored = guard::is_stored(table.guard);
  if (stored) assignments.push_back(guard::assignment(table.guard, excluded));
  if (assignments.empty()) return fmt::format(" ON CONFLICT ({}) DO NOTHING", key_list(table));
  // A ledger was asked before the insert (no_newer_entry).
  return fmt::format(" ON CONFLICT ({}) DO UPDATE SET {} WHERE true{}", key_list(table), fmt::join(assignments, ", "),
                     stored ? guard::not_newer(table, "t", excluded) : "");
}

// A row of key columns only has nothing to overwrite, so nothing is returned for one that is there: its entry must be
// raised all the same.
Statement insert_with_ledger(Statement statement, const RowTarget& target, const std::vector<std::string>& names,
                             const std::vector<std::string>& values, wire::Tuple row, OnConflict on_conflict) {
  const TargetTable& table = target.table;
  const std::string lsn = bind_guard(statement, target);
  std::vector<std::string> key;
  for (std::size_t i : table.key) key.push_back(values[i]);
  const std::string conflict = on_conflict_clause(table, on_conflict);
  statement.sql =
      fmt::format("INSERT INTO {} AS t ({}) OVERRIDING SYSTEM VALUE SELECT {} WHERE {}{}", table.quoted,
                  fmt::join(names, ", "), fmt::join(values, ", "), guard::no_newer_entry(table, key, lsn), conflict);
  if (on_conflict == OnConflict::overwrite && conflict.ends_with("NOTHING"))
    statement.sql = fmt::format("WITH written AS ({}) {}", statement.sql, guard::enter(table, key, lsn, false, ""));
  else
    and_enter(statement, target, row, lsn, false);
  return statement;
}

}  // namespace

Statement insert_row(const RowTarget& target, wire::Tuple row, OnConflict on_conflict) {
  const TargetTable& table = target.table;
  Statement statement;
  std::vector<std::string> names, values;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    names.push_back(table.columns[i].quoted);
    values.push_back(bind_column(statement, table, row, i));
  }
  if (table.guard == GuardMode::ledger)
    return insert_with_ledger(std::move(statement), target, names, values, row, on_conflict);
  if (guard::is_stored(table.guard)) {
    names.push_back(guard::column(table.guard));
    values.push_back(bind_guard(statement, target));
  }
  if (names.empty()) {  // a table without columns
    statement.sql = fmt::format("INSERT INTO {} DEFAULT VALUES", table.quoted);
    return statement;
  }
  statement.sql = fmt::format("INSERT INTO {} AS t ({}) OVERRIDING SYSTEM VALUE VALUES ({}){}", table.quoted,
                              fmt::join(names, ", "), fmt::join(values, ", "), on_conflict_clause(table, on_conflict));
  return statement;
}

Statement update_row(const RowTarget& target, wire::Tuple key_row, wire::Tuple row, bool sets_key) {
  const TargetTable& table = target.table;
  Statement statement;
  std::vector<std::string> assignments;
  std::string match = match_key(statement, table, key_row);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const TargetColumn& c = table.columns[i];
    if (!is_known(row[i]) || (c.is_key && !sets_key)) continue;
    const std::string value = bind_column(statement, table, row, i);
    if (c.identity_always)
      match += fmt::format(" AND t.{} IS NOT DISTINCT FROM {}", c.quoted, value);
    else
      assignments.push_back(fmt::format("{} = {}", c.quoted, value));
  }
  const std::string lsn = bind_guard(statement, target);
  if (guard::is_stored(table.guard)) assignments.push_back(guard::assignment(table.guard, lsn));
  match += guard::not_newer(table, "t", lsn);
  const bool only_looks = assignments.empty();  // nothing to set, but the row must be there
  if (only_looks)
    statement.sql = fmt::format("SELECT FROM {} AS t WHERE {}", target.scope, match);
  else
    statement.sql = fmt::format("UPDATE {} AS t SET {} WHERE {}", target.scope, fmt::join(assignments, ", "), match);
  and_enter(statement, target, sets_key ? row : key_row, lsn, false, "", only_looks);
  return statement;
}

Statement delete_row(const RowTarget& target, wire::Tuple key_row) {
  Statement statement;
  const std::string match = match_key(statement, target.table, key_row);
  const std::string lsn = bind_guard(statement, target);
  statement.sql =
      fmt::format("DELETE FROM {} AS t WHERE {}{}", target.scope, match, guard::not_newer(target.table, "t", lsn));
  and_enter(statement, target, key_row, lsn, true);
  return statement;
}

Statement replace_row(const RowTarget& target, wire::Tuple key_row, wire::Tuple row) {
  const TargetTable& table = target.table;
  Statement statement;
  const std::string match = match_key(statement, table, key_row);
  std::vector<std::string> names, values;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    names.push_back(table.columns[i].quoted);
    values.push_back(is_known(row[i]) ? bind_column(statement, table, row, i) : "gone." + names.back());
  }
  const std::string lsn = bind_guard(statement, target);
  if (guard::is_stored(table.guard)) {
    names.push_back(guard::column(table.guard));
    values.push_back(lsn);
  }
  const std::string gone = fmt::format("gone AS (DELETE FROM {} AS t WHERE {}{} RETURNING t.*)", target.scope, match,
                                       guard::not_newer(table, "t", lsn));
  statement.sql = fmt::format("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM gone", table.quoted,
                              fmt::join(names, ", "), fmt::join(values, ", "));
  and_enter(statement, target, row, lsn, false, gone);
  return statement;
}

Statement compare_guard(const RowTarget& target, wire::Tuple key_row) {
  const TargetTable& table = target.table;
  Statement statement;
  const std::string match = match_key(statement, table, key_row);
  const std::string lsn = bind_guard(statement, target);
  if (table.guard == GuardMode::ledger) {
    const std::string entry = guard::ledger_match(table, bind_key(statement, table, key_row));
    statement.sql = fmt::format(
        "SELECT CASE WHEN l.commit_lsn > {0} THEN 1 WHEN l.commit_lsn = {0} THEN 0 ELSE -1 END FROM (SELECT) AS one "
        "LEFT JOIN {1} AS t ON {2} LEFT JOIN {3} AS l ON {4} WHERE t.tableoid IS NOT NULL OR l.commit_lsn > {0}",
        lsn, target.scope, match, table.ledger, entry);
    return statement;
  }
  const std::string compared = lsn.empty()
                                   ? "NULL::int"
                                   : fmt::format("CASE WHEN t.{0} > {1} THEN 1 WHEN t.{0} = {1} THEN 0 ELSE -1 END",
                                                 guard::column(table.guard), lsn);
  statement.sql = fmt::format("SELECT {} FROM {} AS t WHERE {}", compared, target.scope, match);
  return statement;
}

Statement select_row(const RowTarget& target, wire::Tuple key_row) {
  Statement statement;
  std::vector<std::string> texts;
  for (const TargetColumn& c : target.table.columns) texts.push_back(text_of(c, "t." + c.quoted));
  const std::string match = match_key(statement, target.table, key_row);
  const std::string lsn = bind_guard(statement, target);
  statement.sql = fmt::format("SELECT {} FROM {} AS t WHERE {}{}", fmt::join(texts, ", "), target.scope, match,
                              guard::not_newer(target.table, "t", lsn));
  return statement;
}

namespace {

// IS NOT DISTINCT FROM would look for an operator called `=`; with a literal NULL it is a test that needs none, and
// that takes a composite value of NULLs for a value.
std::string equal_or_both_null(const TargetColumn& c, const std::string& value) {
  return fmt::format("(t.{0} {1} {2} OR (t.{0} IS NOT DISTINCT FROM NULL AND {2} IS NOT DISTINCT FROM NULL))", c.quoted,
                     c.equals, value);
}

// One row that equals `old_row`, as (tableoid, ctid). NULLs are equal to each other; types without equality compare as
// text. Equality is not identity (1.0 = 1.00, -0 = 0, '1 day' = '24:00:00', 'a' = 'A' in a nondeterministic collation,
// which "C" is not): among equal rows one with the same text wins.
std::string one_equal_row(Statement& statement, const RowTarget& target, wire::Tuple old_row) {
  const TargetTable& table = target.table;
  std::vector<std::string> equal, same_text;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (!is_known(old_row[i])) continue;
    const TargetColumn& c = table.columns[i];
    const std::string value = bind_column(statement, table, old_row, i);
    const std::string as_text = fmt::format("({}) COLLATE pg_catalog.\"C\" IS NOT DISTINCT FROM {}",
                                            text_of(c, "t." + c.quoted), text_of(c, "(" + value + ")"));
    equal.push_back(c.has_equality ? equal_or_both_null(c, value) : as_text);
    if (c.has_equality && !c.type_is_integer) same_text.push_back(as_text);
  }
  return fmt::format("(SELECT t.tableoid AS o, t.ctid AS c FROM {} AS t{}{}{}{} LIMIT 1) AS one", target.scope,
                     equal.empty() ? "" : " WHERE ", fmt::join(equal, " AND "),
                     same_text.empty() ? "" : " ORDER BY (" + fmt::format("{}", fmt::join(same_text, " AND ")),
                     same_text.empty() ? "" : ") DESC");
}

constexpr std::string_view kIsThatRow = "t.ctid = one.c AND t.tableoid = one.o";

}  // namespace

Statement update_one_equal_row(const RowTarget& target, wire::Tuple old_row, wire::Tuple row) {
  const TargetTable& table = target.table;
  Statement statement;
  const std::string one = one_equal_row(statement, target, old_row);
  std::vector<std::string> assignments;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (is_known(row[i]) && !table.columns[i].identity_always)
      assignments.push_back(fmt::format("{} = {}", table.columns[i].quoted, bind_column(statement, table, row, i)));
  if (guard::is_stored(table.guard))
    assignments.push_back(guard::assignment(table.guard, bind_guard(statement, target)));
  if (assignments.empty())
    statement.sql = fmt::format("SELECT FROM {}", one);
  else
    statement.sql = fmt::format("UPDATE {} AS t SET {} FROM {} WHERE {}", target.scope, fmt::join(assignments, ", "),
                                one, kIsThatRow);
  return statement;
}

Statement delete_one_equal_row(const RowTarget& target, wire::Tuple old_row) {
  Statement statement;
  const std::string one = one_equal_row(statement, target, old_row);
  statement.sql = fmt::format("DELETE FROM {} AS t USING {} WHERE {}", target.scope, one, kIsThatRow);
  return statement;
}

}  // namespace pgbaton::apply
