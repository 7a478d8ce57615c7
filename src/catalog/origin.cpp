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

std::string rename_statements(const QualifiedName& from, const QualifiedName& to) {
  std::string sql;
  if (from.schema != to.schema)
    sql += fmt::format("ALTER TABLE {} SET SCHEMA {}; ", from.quoted(), quote_identifier(to.schema));
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
