#include "repair_sql.hpp"

#include <fmt/format.h>
#include <pgbaton/base/name.hpp>

#include <algorithm>

namespace pgbaton::verify {
namespace {

std::string literal(const std::optional<std::string>& text) {
  return text ? quote_literal(*text) : "NULL";
}

std::string guard_column() {
  return quote_identifier(kGuardColumn);
}

}  // namespace

std::string key_condition(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys) {
  const auto& columns = plan.side(where).columns;
  std::vector<std::string> names, tuples;
  for (const auto i : plan.key) names.push_back(quote_identifier(columns[i]->name));
  for (const auto& key : keys) {
    std::vector<std::string> values;
    for (std::size_t k = 0; k < plan.key.size(); ++k)
      values.push_back(fmt::format("{}::{}", literal(key[k]), columns[plan.key[k]]->cast_type));
    tuples.push_back(fmt::format("({})", fmt::join(values, ", ")));
  }
  return fmt::format("({}) IN ({})", fmt::join(names, ", "), fmt::join(tuples, ", "));
}

std::string select_rows(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys) {
  const auto& side = plan.side(where);
  std::vector<std::string> texts;
  for (const auto* column : side.columns) texts.push_back(quote_identifier(column->name) + "::text");
  const auto filter = in_filter(side);
  return fmt::format("SELECT {} FROM {} WHERE {}{}{}", fmt::join(texts, ", "), side.from,
                     key_condition(plan, where, keys), filter.empty() ? "" : " AND ", filter);
}

std::string delete_keys(const TablePlan& plan, const std::vector<RowTexts>& keys) {
  return fmt::format("DELETE FROM {} WHERE {}", plan.side(Where::target).from,
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

std::string update_row(const TablePlan& plan, const RowTexts& row, Lsn cut_lsn) {
  const auto& side = plan.side(Where::target);
  RowTexts key;
  for (const auto i : plan.key) key.push_back(row[i]);
  std::vector<std::string> assignments;
  for (std::size_t i = 0; i < side.columns.size(); ++i)
    if (side.columns[i]->identity != 'a')  // may not stand in SET; the comparison afterwards tells if it differs
      assignments.push_back(fmt::format("{} = {}", quote_identifier(side.columns[i]->name), literal(row[i])));
  if (plan.guarded) assignments.push_back(fmt::format("{} = {}", guard_column(), quote_literal(to_string(cut_lsn))));
  return fmt::format("UPDATE {} SET {} WHERE {}", side.from, fmt::join(assignments, ", "),
                     key_condition(plan, Where::target, {key}));
}

std::string delete_copies(const TablePlan& plan, const std::map<std::int64_t, std::int64_t>& counts) {
  std::vector<std::string> wanted;
  for (const auto& [hash, count] : counts) wanted.push_back(fmt::format("({}::int8, {}::int8)", hash, count));
  const auto& from = plan.side(Where::target).from;
  return fmt::format(
      "DELETE FROM {} t USING (SELECT o, c FROM (SELECT kh, o, c, row_number() OVER (PARTITION BY kh) AS n FROM ({}) "
      "x) "
      "y JOIN (VALUES {}) v (hash, n) ON v.hash = y.kh AND y.n <= v.n) z WHERE t.tableoid = z.o AND t.ctid = z.c",
      from, plan.rows(Where::target, "tableoid AS o, ctid AS c"), fmt::join(wanted, ", "));
}

}  // namespace pgbaton::verify
