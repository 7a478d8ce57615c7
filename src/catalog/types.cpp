#include <fmt/format.h>
#include <pgbaton/catalog/type.hpp>

#include "names.hpp"
#include "queries.hpp"

namespace pgbaton::catalog {
namespace {

Type read_type(const pqxx::row& row) {
  Type type;
  type.name = {row["schema"].as<std::string>(), row["name"].as<std::string>()};
  type.kind = *row["kind"].c_str();
  type.not_null = row["not_null"].as<bool>();
  type.base = row["base"].as<std::string>();
  type.labels = read_names(row["labels"]);
  const auto names = read_names(row["attribute_names"]), types = read_names(row["attribute_types"]);
  for (std::size_t i = 0; i < names.size() && i < types.size(); ++i) type.attributes.push_back({names[i], types[i]});
  const auto constraints = read_names(row["constraint_names"]), texts = read_names(row["constraint_texts"]);
  for (std::size_t i = 0; i < constraints.size() && i < texts.size(); ++i) type.constraints[constraints[i]] = texts[i];
  return type;
}

}  // namespace

std::string to_text(const Type& type) {
  std::string text = fmt::format("{} {} {} {}", type.name.quoted(), type.kind, type.base, type.not_null);
  for (const auto& label : type.labels) text += " " + quote_literal(label);
  for (const auto& attribute : type.attributes) text += " " + quote_identifier(attribute.name) + " " + attribute.type;
  for (const auto& [name, definition] : type.constraints) text += " " + quote_identifier(name) + " " + definition;
  return text;
}

Types load_types(pg::Control& connection, Side side) {
  return pg::control(side, "reading the types of columns", [&] {
    pqxx::transaction<pqxx::repeatable_read, pqxx::read_only> tx(connection);
    Types types;
    for (const auto& row : tx.exec(types_query(connection.server_version()))) {
      auto type = read_type(row);
      types.inside[row["root"].as<Oid>()].insert(type.name);
      types.by_name.emplace(type.name, std::move(type));
    }
    for (const auto& row : tx.exec(collations_query()))
      types.collations[row["table_oid"].as<Oid>()][row["name"].as<std::string>()] = row["collation"].as<std::string>();
    return types;
  });
}

}  // namespace pgbaton::catalog
