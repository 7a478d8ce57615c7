#include "repair_sql.hpp"

#include <fmt/format.h>
#include <pgbaton/base/name.hpp>

#include <algorithm>

namespace pgbaton::verify {
namespace {

std::string literal(const std::optional<std::string>& text) {
  return text ? quote_literal(*text) : "NULL";
}

std::string typed(const std::optional<std::string>& text, const catalog::Column& column) {
  return fmt::format("{}::{}", literal(text), column.cast_type);
}

std::string guard_column() {
  return quote_identifier(kGuardColumn);
}

// One index scan for all of them; an array of arrays would be one array of their elements, and a domain may be over
// one.
bool fits_array(const catalog::Column& column) {
  return !column.type_is_array && column.type.schema == "pg_catalog";
}

std::string texts_array(const TablePlan& plan, Where where) {
  std::vector<std::string> texts;
  for (const auto* column : plan.side(where).columns) texts.push_back(column_text(*column));
  return fmt::format("ARRAY[{}]::text[]", fmt::join(texts, ", "));
}

}  // namespace

std::string key_condition(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys,
                          std::string_view alias) {
  const auto& side = plan.side(where);
  const auto compared = [&](std::size_t k) {
    return fmt::format("{}.{} {}", alias, quote_identifier(side.columns[plan.key[k]]->name), side.key_equality[k]);
  };
  const auto& first = *side.columns[plan.key.front()];
  std::vector<std::string> terms;
  if (plan.key.size() == 1 && fits_array(first)) {
    for (const auto& key : keys) terms.push_back(typed(key.front(), first));
    return fmt::format("{} ANY (ARRAY[{}])", compared(0), fmt::join(terms, ", "));
  }
  for (const auto& key : keys) {
    std::vector<std::string> parts;
    for (std::size_t k = 0; k < plan.key.size(); ++k)
      parts.push_back(compared(k) + " " + typed(key[k], *side.columns[plan.key[k]]));
    terms.push_back(fmt::format("({})", fmt::join(parts, " AND ")));
  }
  return fmt::format("({})", fmt::join(terms, " OR "));
}

std::string key_text(const TablePlan& plan, const RowTexts& key) {
  std::string names, values;
  for (std::size_t k = 0; k < key.size(); ++k) {
    names += (k == 0 ? "" : ", ") + plan.side(Where::target).columns[plan.key[k]]->name;
    values += (k == 0 ? "" : ", ") + key[k].value_or("NULL");
  }
  return fmt::format("({})=({})", names, values);
}

std::string key_texts(const TablePlan& plan, Where where) {
  std::vector<std::string> texts;
  for (const auto i : plan.key) texts.push_back(column_text(*plan.side(where).columns[i], "t."));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string select_rows(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys) {
  const auto& side = plan.side(where);
  std::vector<std::string> texts;
  for (const auto* column : side.columns) texts.push_back(column_text(*column, "t."));
  // The filter may name the table, which here is t.
  const auto filter = in_filter(side);
  const auto from = filter.empty() ? side.from : fmt::format("(SELECT * FROM {} WHERE {})", side.from, filter);
  return fmt::format("SELECT {} FROM {} AS t WHERE {}", fmt::join(texts, ", "), from, key_condition(plan, where, keys));
}

std::string count_rows(const TablePlan& plan, const std::vector<RowTexts>& keys) {
  return fmt::format("SELECT count(*) FROM {} AS t WHERE {}", plan.side(Where::target).from,
                     key_condition(plan, Where::target, keys));
}

std::string delete_keys(const TablePlan& plan, const std::vector<RowTexts>& keys) {
  return fmt::format("DELETE FROM {} AS t WHERE {}", plan.side(Where::target).from,
                     key_condition(plan, Where::target, keys));
}

std::string insert_rows(const TablePlan& plan, const std::vector<RowTexts>& rows, Lsn cut_lsn) {
  const auto& side = plan.side(Where::target);
  std::vector<std::string> names, tuples;
  for (const auto* column : side.columns) names.push_back(quote_identifier(column->name));
  if (plan.guarded) names.push_back(guard_column());
  if (names.empty()) {
    std::vector<std::string> empty(rows.size(), "SELECT");
    return fmt::format("INSERT INTO {} {}", side.table.name.quoted(), fmt::join(empty, " UNION ALL "));
  }
  for (const auto& row : rows) {
    std::vector<std::string> values;
    for (const auto& value : row) values.push_back(literal(value));
    if (plan.guarded) values.push_back(quote_literal(to_string(cut_lsn)));
    tuples.push_back(fmt::format("({})", fmt::join(values, ", ")));
  }
  return fmt::format("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES {}", side.table.name.quoted(),
                     fmt::join(names, ", "), fmt::join(tuples, ", "));
}

std::string update_rows(const TablePlan& plan, const std::vector<std::size_t>& columns,
                        const std::vector<RowTexts>& rows, Lsn cut_lsn) {
  const auto& side = plan.side(Where::target);
  std::vector<std::string> names, assignments, matches, tuples;
  for (std::size_t k = 0; k < plan.key.size(); ++k) {
    names.push_back(fmt::format("k{}", k));
    matches.push_back(fmt::format("t.{} {} v.{}", quote_identifier(side.columns[plan.key[k]]->name),
                                  side.key_equality[k], names.back()));
  }
  for (const auto i : columns) {
    names.push_back(fmt::format("c{}", i));
    assignments.push_back(fmt::format("{} = v.{}", quote_identifier(side.columns[i]->name), names.back()));
  }
  if (plan.guarded) assignments.push_back(fmt::format("{} = {}", guard_column(), quote_literal(to_string(cut_lsn))));
  for (const auto& row : rows) {
    std::vector<std::string> values;
    for (const auto i : plan.key) values.push_back(typed(row[i], *side.columns[i]));
    for (const auto i : columns) values.push_back(typed(row[i], *side.columns[i]));
    tuples.push_back(fmt::format("({})", fmt::join(values, ", ")));
  }
  return fmt::format("UPDATE {} AS t SET {} FROM (VALUES {}) AS v ({}) WHERE {}", side.from,
                     fmt::join(assignments, ", "), fmt::join(tuples, ", "), fmt::join(names, ", "),
                     fmt::join(matches, " AND "));
}

std::string delete_copies(const TablePlan& plan, const std::map<WholeRow, std::int64_t>& counts) {
  std::vector<std::string> wanted;
  for (const auto& [row, count] : counts) {
    std::vector<std::string> texts;
    for (const auto& text : row.second) texts.push_back(literal(text));
    wanted.push_back(fmt::format("({}::int8, {}::int8, ARRAY[{}]::text[])", row.first, count, fmt::join(texts, ", ")));
  }
  // NULLs in arrays are equal to each other.
  return fmt::format(
      "DELETE FROM {} t USING (SELECT o, c FROM (SELECT kh, o, c, tx, row_number() OVER (PARTITION BY kh, tx) AS n "
      "FROM ({}) x) y JOIN (VALUES {}) v (hash, n, tx) ON v.hash = y.kh AND v.tx = y.tx AND y.n <= v.n) z "
      "WHERE t.tableoid = z.o AND t.ctid = z.c",
      plan.side(Where::target).from,
      plan.rows(Where::target, "tableoid AS o, ctid AS c, " + texts_array(plan, Where::target) + " AS tx"),
      fmt::join(wanted, ", "));
}

}  // namespace pgbaton::verify
