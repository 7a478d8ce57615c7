#include "batch_sql.hpp"

#include "guard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace pgbaton::apply {

bool has_typed_array(const TargetColumn& column) {
  return !column.type_is_array && column.cast_type != "box" && column.cast_type.find('.') == std::string::npos;
}

namespace {

// The FROM item `unnest($1::int4[], $2::text[]) AS u(c0, c1, g)` and how its columns read with their own type.
class Unnest {
 public:
  explicit Unnest(const TargetTable& table) : table_(table) {}

  // The value of a column in the row u.
  std::string add(std::size_t column) {
    const TargetColumn& c = table_.columns[column];
    const bool typed = has_typed_array(c);
    columns_.push_back(column);
    arguments_.push_back(fmt::format("${}::{}[]", columns_.size(), typed ? c.cast_type : "text"));
    names_.push_back(fmt::format("c{}", names_.size()));
    return typed ? "u." + names_.back() : fmt::format("u.{}::{}", names_.back(), c.cast_type);
  }
  std::string add_guard() {
    arguments_.push_back(fmt::format("${}::pg_lsn[]", columns_.size() + 1));
    names_.emplace_back("g");
    return "u.g";
  }
  std::string next_parameter() const { return fmt::format("${}", columns_.size() + 1); }
  std::string from_item() const {
    return fmt::format("unnest({}) AS u({})", fmt::join(arguments_, ", "), fmt::join(names_, ", "));
  }
  std::vector<std::size_t> take_columns() { return std::move(columns_); }

 private:
  const TargetTable& table_;
  std::vector<std::size_t> columns_;
  std::vector<std::string> arguments_, names_;
};

std::string match_key(const TargetTable& table, Unnest& rows) {
  std::vector<std::string> terms;
  for (std::size_t i : table.key)
    terms.push_back(fmt::format("t.{} {} {}", table.columns[i].quoted, table.columns[i].equals, rows.add(i)));
  return fmt::format("{}", fmt::join(terms, " AND "));
}

}  // namespace

BatchStatement delete_statement(const TargetTable& table, std::string_view scope) {
  const bool guarded = guard::is_stored(table.guard);
  const auto guard = guarded ? GuardParameter::one : GuardParameter::none;
  const TargetColumn& first = table.columns[table.key.front()];
  if (table.key.size() == 1 && has_typed_array(first)) {
    return {fmt::format("DELETE FROM {} AS t WHERE t.{} {} ANY ($1::{}[]){}", scope, first.quoted, first.equals,
                        first.cast_type, guarded ? guard::not_newer(table, "t", "$2::pg_lsn") : ""),
            {table.key.front()},
            guard};
  }
  Unnest rows(table);
  const std::string match = match_key(table, rows);
  return {fmt::format("DELETE FROM {} AS t USING {} WHERE {}{}", scope, rows.from_item(), match,
                      guarded ? guard::not_newer(table, "t", rows.next_parameter() + "::pg_lsn") : ""),
          rows.take_columns(), guard};
}

BatchStatement update_statement(const TargetTable& table, std::string_view scope,
                                const std::vector<std::size_t>& mask) {
  Unnest rows(table);
  std::string match = match_key(table, rows);
  std::vector<std::string> assignments;
  for (std::size_t i : mask) {
    const TargetColumn& c = table.columns[i];
    // Not allowed in SET. If it did change, the count is short and the row strategy replaces the row.
    if (c.identity_always)
      match += fmt::format(" AND t.{} IS NOT DISTINCT FROM {}", c.quoted, rows.add(i));
    else
      assignments.push_back(fmt::format("{} = {}", c.quoted, rows.add(i)));
  }
  const bool guarded = guard::is_stored(table.guard);
  if (guarded) {
    const std::string lsn = rows.add_guard();
    assignments.push_back(guard::assignment(table.guard, lsn));
    match += guard::not_newer(table, "t", lsn);
  }
  if (assignments.empty()) return {};
  return {fmt::format("UPDATE {} AS t SET {} FROM {} WHERE {}", scope, fmt::join(assignments, ", "), rows.from_item(),
                      match),
          rows.take_columns(), guarded ? GuardParameter::array : GuardParameter::none};
}

namespace {

std::string insert_columns(const TargetTable& table) {
  std::vector<std::string> names;
  for (const TargetColumn& c : table.columns) names.push_back(c.quoted);
  if (guard::is_stored(table.guard)) names.push_back(guard::column(table.guard));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

BatchStatement insert_statement(const TargetTable& table) {
  Unnest rows(table);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < table.columns.size(); ++i) values.push_back(rows.add(i));
  const bool guarded = guard::is_stored(table.guard);
  if (guarded) values.push_back(rows.add_guard());
  return {fmt::format("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}", table.quoted,
                      insert_columns(table), fmt::join(values, ", "), rows.from_item()),
          rows.take_columns(), guarded ? GuardParameter::array : GuardParameter::none};
}

BatchStatement enter_statement(const TargetTable& table, bool deleted) {
  Unnest rows(table);
  std::vector<std::string> key;
  for (std::size_t i : table.key) key.push_back(rows.add(i));
  const std::string lsn = rows.add_guard();
  // WHERE true: without it ON CONFLICT could be read as a join condition.
  const std::string from = fmt::format(" FROM {} WHERE true", rows.from_item());
  return {guard::enter(table, key, lsn, deleted, from), rows.take_columns(), GuardParameter::array};
}

std::string copy_statement(const TargetTable& table, bool binary) {
  return fmt::format("COPY {} ({}) FROM STDIN (FORMAT {})", table.quoted, insert_columns(table),
                     binary ? "binary" : "text");
}

}  // namespace pgbaton::apply
