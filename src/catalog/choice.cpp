#include <fmt/format.h>
#include <pgbaton/catalog/choice.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace pgbaton::catalog {
namespace {

[[noreturn]] void refuse(const Table& table, const std::string& why, const std::string& hint) {
  throw Error(ErrorKind::usage, fmt::format("tables: {}: {}", table.name.quoted(), why)).hint(hint);
}

bool can_be_left_out(const Column& column) {
  return !column.not_null || column.has_default || column.identity != ' ' || column.generated != ' ';
}

std::set<std::string> parse_columns(const Table& table, const TableChoice& choice) {
  std::set<std::string> names;
  for (const auto& text : choice.columns) {
    const auto name = parse_qualified_name("x." + text).name;
    const auto* column = table.find_column(name);
    if (column == nullptr)
      refuse(table, fmt::format("there is no column {}", quote_identifier(name)),
             "Write names as in SQL, in double quotes where they hold capitals or special characters.");
    if (column->generated != ' ')
      refuse(table, fmt::format("column {} is generated", quote_identifier(name)),
             "Leave it out of the list: the target computes it by itself.");
    names.insert(name);
  }
  return names;
}

void choose_columns(Table& table, const TableChoice& choice) {
  const auto names = parse_columns(table, choice);
  if (table.identity == Identity::full)
    refuse(table, "a column list cannot stand beside REPLICA IDENTITY FULL: updates would fail on the source",
           "Give the table a primary key as its identity, or leave the list out.");
  if (table.identity == Identity::index)
    for (const auto& column : table.identity_columns)
      if (!names.contains(column))
        refuse(table,
               fmt::format("the list lacks column {} of the identity: updates would fail on the source",
                           quote_identifier(column)),
               "Add it to the list.");
  for (auto& column : table.columns) {
    column.carried = names.contains(column.name) || column.generated != ' ' || column.name == kGuardColumn;
    if (!column.carried && !can_be_left_out(column))
      refuse(
          table,
          fmt::format("the list lacks column {}, which is NOT NULL without a default", quote_identifier(column.name)),
          "Add it to the list.");
  }
  table.has_column_list = true;
}

void choose(Table& table, const TableChoice& choice) {
  if (!choice.columns.empty()) choose_columns(table, choice);
  table.row_filter = choice.where;
  table.row_filter.erase(table.row_filter.find_last_not_of(" \n\r\t") + 1);  // YAML's `where: |` ends in a line break
}

bool is_in_tree(const std::vector<Table>& tables, const Table& table, Oid root) {
  if (table.oid == root) return true;
  const auto parent = std::ranges::find(tables, table.parent_oid, &Table::oid);
  return table.parent_oid != 0 && parent != tables.end() && is_in_tree(tables, *parent, root);
}

}  // namespace

void apply_choices(std::vector<Table>& tables, const std::vector<TableChoice>& choices) {
  for (const auto& choice : choices) {
    const auto name = parse_qualified_name(choice.name);
    const auto found = std::ranges::find(tables, name, &Table::name);
    if (found == tables.end())
      throw Error(ErrorKind::usage, fmt::format("tables: {} matches no table that is carried", name.quoted()))
          .hint("Write the name as in SQL: schema.table, in double quotes where it holds capitals.");
    const auto root = found->oid;
    for (auto& table : tables)
      if (table.kind == 'r' && is_in_tree(tables, table, root)) choose(table, choice);
  }
}

std::vector<TableChoice> recorded_choices(const std::string& options_json) {
  std::vector<TableChoice> choices;
  const auto recorded = nlohmann::json::parse(options_json, nullptr, false);
  if (!recorded.is_object()) return choices;
  for (const auto& choice : recorded.value("tables", nlohmann::json::array()))
    choices.push_back(
        {choice.value("name", ""), choice.value("columns", std::vector<std::string>()), choice.value("where", "")});
  return choices;
}

void keep_choice(const Table& from, Table& to) {
  to.row_filter = from.row_filter;
  to.has_column_list = from.has_column_list;
  if (!from.has_column_list) return;
  for (auto& column : to.columns) {
    const auto before = std::ranges::find(from.columns, column.number, &Column::number);
    column.carried = before != from.columns.end() && before->carried;
  }
}

bool has_choice(const Table& table) {
  return table.has_column_list || !table.row_filter.empty();
}

std::string publication_detail(const Table& table) {
  std::string columns;
  for (const auto& column : table.columns)
    if (column.carried && column.generated == ' ' && column.name != kGuardColumn)
      columns += (columns.empty() ? "" : ", ") + quote_identifier(column.name);
  std::string detail = table.has_column_list ? fmt::format(" ({})", columns) : "";
  if (!table.row_filter.empty()) detail += " WHERE " + bracketed(table.row_filter);
  return detail;
}

}  // namespace pgbaton::catalog
