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
