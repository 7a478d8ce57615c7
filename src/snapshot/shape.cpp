#include "shape.hpp"

#include <pgbaton/catalog/origin.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pgbaton::snapshot {

ShapeChange compare_with_shape(const std::string& shape, const catalog::Table& table) {
  using Json = nlohmann::json;
  ShapeChange change;
  const auto recorded = Json::parse(shape, nullptr, false),
             now = Json::parse(catalog::shape_json(table), nullptr, false);
  if (!recorded.is_object() || !recorded.contains("columns") || !now.is_object()) return change;
  change.readable = true;
  change.same_columns = recorded["columns"] == now["columns"];
  change.same_file = recorded.value("filenode", Json()) == now["filenode"];
  for (const auto& [number, name] : recorded["columns"].items()) {
    const auto* column = table.find_column(name.get<std::string>());
    if (column != nullptr && std::to_string(column->number) != number)
      change.other.push_back(column->name);
    else if (column == nullptr && !now["columns"].contains(number))
      change.dropped.push_back(name.get<std::string>());
  }
  return change;
}

}  // namespace pgbaton::snapshot
