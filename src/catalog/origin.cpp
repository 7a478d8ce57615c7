#include <fmt/format.h>
#include <pgbaton/catalog/origin.hpp>

#include <algorithm>
#include <pgbaton/embedded_sql.hpp>

namespace pgbaton::catalog {
namespace {

std::string text_or_empty(const pqxx::field& field) {
  return field.is_null() ? std::string() : field.as<std::string>();
}

char letter(const pqxx::field& field) {
  return *field.c_str() == '\0' ? ' ' : *field.c_str();
}

ColumnOrigin read_origin(const pqxx::row& row) {
  ColumnOrigin origin;
  origin.name = row["name"].as<std::string>();
  origin.number = row["number"].as<int>();
  origin.recorded_name = text_or_empty(row["recorded_name"]);
  origin.type = row["type"].as<std::string>();
  if (!row["collation"].is_null()) origin.type += " COLLATE " + row["collation"].as<std::string>();
  origin.default_expression = text_or_empty(row["default_expression"]);
  origin.not_null = row["not_null"].as<bool>();
  origin.identity = letter(row["identity"]);
  origin.generated = letter(row["generated"]);
  if (!row["old_known"].is_null() && row["old_known"].as<bool>()) origin.old_value = row["old_value"].as<std::string>();
  origin.defined_at = {row["home_schema"].as<std::string>(), row["home_table"].as<std::string>()};
  return origin;
}

}  // namespace

ColumnAddition add_column(const ColumnOrigin& column, bool repeatable) {
  const auto table = column.defined_at.quoted();
  const auto name = quote_identifier(column.name);
  ColumnAddition addition{
      fmt::format("ALTER TABLE {} ADD COLUMN {}{} {}", table, repeatable ? "IF NOT EXISTS " : "", name, column.type),
      ""};
  if (!column.old_value) return addition;
  const auto& old_value = *column.old_value;
  const auto& expression = column.default_expression;
  // `5` and `'5'::integer` are the same value.
  const bool plain = old_value == expression || old_value.starts_with("'" + expression + "'::");
  if (old_value != "NULL") addition.statement += " DEFAULT " + (plain ? expression : old_value);
  if (old_value != "NULL" && column.not_null) addition.statement += " NOT NULL";
  if (expression.empty() && old_value != "NULL")
    addition.afterwards = fmt::format("ALTER TABLE {} ALTER COLUMN {} DROP DEFAULT", table, name);
  if (!expression.empty() && !plain)
    addition.afterwards = fmt::format("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}", table, name, expression);
  return addition;
}

namespace {

// Columns that have the name of another one, which is among them, too.
std::vector<const ColumnOrigin*> exchanged(const Origins& origins, const Table& target) {
  std::vector<const ColumnOrigin*> found;
  for (const auto& column : origins.columns)
    if (!column.recorded_name.empty() && column.recorded_name != column.name &&
        target.find_column(column.recorded_name) != nullptr && target.find_column(column.name) != nullptr)
      found.push_back(&column);
  const auto is_taken = [&](const ColumnOrigin* column) {
    return std::ranges::any_of(found, [&](const auto* other) { return other->recorded_name == column->name; });
  };
  while (std::erase_if(found, [&](const auto* column) { return !is_taken(column); }) > 0) {
  }
  return found;
}

std::string exchange(const std::vector<const ColumnOrigin*>& columns, const std::string& table) {
  std::string away, back;
  for (const auto* column : columns) {
    const auto between = quote_identifier(column->name + "__new"), name = quote_identifier(column->name);
    away +=
        fmt::format("ALTER TABLE {} RENAME COLUMN {} TO {}; ", table, quote_identifier(column->recorded_name), between);
    back += fmt::format("ALTER TABLE {} RENAME COLUMN {} TO {}; ", table, between, name);
  }
  return away + back;
}

}  // namespace

Retyping retype(const Origins& origins, const ColumnOrigin& column, const Table& target, const QualifiedName& place) {
  const auto table = place.quoted(), name = quote_identifier(column.name);
  const auto columns = exchanged(origins, target);
  if (std::ranges::find(columns, &column) != columns.end()) return {exchange(columns, table), false};
  const bool made_again =
      column.recorded_name.empty() &&
      std::ranges::any_of(origins.dropped, [&](const auto& dropped) { return dropped.recorded_name == column.name; });
  if (made_again) {
    auto addition = column;
    addition.defined_at = place;
    return {fmt::format("ALTER TABLE {} DROP COLUMN {}; {}; ", table, name, add_column(addition, false).statement),
            false};
  }
  const auto plain = column.type.substr(0, column.type.find(" COLLATE "));
  return {fmt::format("ALTER TABLE {0} ALTER COLUMN {1} TYPE {2} USING {1}::{3}; ", table, name, column.type, plain),
          true};
}

namespace {

bool has_schema(pg::Control& connection, Side side, const std::string& name) {
  return pg::control(side, "looking for a schema", [&] {
    pqxx::nontransaction tx(connection);
    return tx.exec_params1("select exists (select from pg_catalog.pg_namespace where nspname = $1)", name)[0]
        .as<bool>();
  });
}

}  // namespace

std::string rename_statements(pg::Control& source, pg::Control& target, const QualifiedName& from,
                              const QualifiedName& to) {
  std::string sql;
  if (from.schema != to.schema) {
    const auto was = quote_identifier(from.schema), is = quote_identifier(to.schema);
    const bool is_there = has_schema(target, Side::target, to.schema);
    if (!is_there && !has_schema(source, Side::source, from.schema)) {
      sql += fmt::format("ALTER SCHEMA {} RENAME TO {}; ", was, is);
    } else {
      if (!is_there) sql += fmt::format("CREATE SCHEMA IF NOT EXISTS {}; ", is);
      sql += fmt::format("ALTER TABLE {} SET SCHEMA {}; ", from.quoted(), is);
    }
  }
  if (from.name != to.name)
    sql += fmt::format("ALTER TABLE {} RENAME TO {}; ", QualifiedName{to.schema, from.name}.quoted(),
                       quote_identifier(to.name));
  return sql;
}

const ColumnOrigin* Origins::find(std::string_view column_name) const {
  const auto found = std::ranges::find(columns, column_name, &ColumnOrigin::name);
  return found == columns.end() ? nullptr : &*found;
}

std::optional<Origins> load_origins(pg::Control& source, Oid table, const std::string& recorded_shape) {
  return pg::control(Side::source, "reading what became of a table's columns", [&]() -> std::optional<Origins> {
    pqxx::transaction<pqxx::repeatable_read, pqxx::read_only> tx(source);
    const auto names = tx.exec_params(
        "select n.nspname, c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n "
        "on n.oid = c.relnamespace where c.oid = $1",
        table);
    if (names.empty()) return std::nullopt;
    Origins origins;
    origins.name = {names[0][0].as<std::string>(), names[0][1].as<std::string>()};
    for (const auto& row : tx.exec_params(std::string(sql::source_origins), table,
                                          recorded_shape.empty() ? "{\"columns\": {}}" : recorded_shape)) {
      if (row["name"].is_null())
        origins.dropped.push_back({row["number"].as<int>(), row["recorded_name"].as<std::string>()});
      else
        origins.columns.push_back(read_origin(row));
    }
    return origins;
  });
}

}  // namespace pgbaton::catalog
