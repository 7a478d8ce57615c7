#include <pgbaton/catalog/shape.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pgbaton::catalog {
namespace {

using Json = nlohmann::json;

bool has_number(const Table& table, int number) {
  return std::ranges::find(table.columns, number, &Column::number) != table.columns.end();
}

std::map<int, std::string> read_numbered(const Json& object) {
  std::map<int, std::string> texts;
  for (const auto& [number, text] : object.items()) texts.emplace(std::stoi(number), text.get<std::string>());
  return texts;
}

Json numbered(const std::map<int, std::string>& texts) {
  Json object = Json::object();
  for (const auto& [number, text] : texts) object[std::to_string(number)] = text;
  return object;
}

}  // namespace

int Shape::number_of(const std::string& column) const {
  for (const auto& [number, name] : columns)
    if (name == column) return number;
  const auto found = former.find(column);
  return found == former.end() ? 0 : found->second;
}

bool Shape::was_altered(const Column& column) const {
  const auto version = versions.find(column.number);
  return version != versions.end() && version->second != column.version;
}

Shape shape_of(const Table& table) {
  Shape shape;
  shape.filenode = table.filenode;
  shape.attributes = table.attribute_count;
  shape.parents = table.parents;
  for (const auto& column : table.columns) {
    if (column.name == kGuardColumn) continue;
    shape.columns[column.number] = column.name;
    shape.versions[column.number] = column.version;
  }
  return shape;
}

std::string to_json(const Shape& shape) {
  Json json{{"filenode", shape.filenode},
            {"attributes", shape.attributes},
            {"columns", numbered(shape.columns)},
            {"versions", numbered(shape.versions)}};
  if (shape.parents) json["parents"] = *shape.parents;
  if (shape.toast != 0) json["toast"] = shape.toast;
  if (!shape.former.empty()) json["former"] = shape.former;
  // Names may be in the encoding of a source that says SQL_ASCII.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Shape> parse_shape(const std::string& text) {
  const auto json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("columns")) return std::nullopt;
  Shape shape;
  shape.filenode = json.value("filenode", Oid{0});
  shape.toast = json.value("toast", Oid{0});
  shape.columns = read_numbered(json["columns"]);
  shape.versions = read_numbered(json.value("versions", Json::object()));
  shape.attributes = json.value("attributes", shape.columns.empty() ? 0 : shape.columns.rbegin()->first);
  if (json.contains("parents")) shape.parents = json["parents"].get<std::string>();
  shape.former = json.value("former", std::map<std::string, int>());
  return shape;
}

bool has_gap_below(const Shape& recorded, const Table& now, int number) {
  for (int i = recorded.attributes + 1; i < number; ++i)
    if (!has_number(now, i) && !recorded.columns.contains(i)) return true;
  return false;
}

ShapeChange compare(const Shape& recorded, const Table& now) {
  ShapeChange change;
  const bool rewritten = recorded.filenode != now.filenode;
  for (const auto& [number, name] : recorded.columns) {
    const auto* column = now.find_column(name);
    if (column != nullptr && column->number != number) change.other.push_back(name);
    if (!has_number(now, number)) change.gone.emplace(number, name);
  }
  for (const auto& column : now.columns) {
    if (column.name == kGuardColumn) continue;
    const auto known = recorded.columns.find(column.number);
    if (known == recorded.columns.end()) {
      if (has_gap_below(recorded, now, column.number)) change.unclear.push_back(column.name);
      continue;
    }
    if (rewritten && recorded.was_altered(column)) change.altered.push_back(column.name);
  }
  change.moved = recorded.parents && *recorded.parents != now.parents;
  return change;
}

Shape succeed(const Shape& recorded, const Table& now, const std::map<int, std::string>& kept) {
  auto shape = shape_of(now);
  shape.columns.insert(kept.begin(), kept.end());
  shape.former = recorded.former;
  for (const auto& [number, name] : recorded.columns)
    if (const auto column = shape.columns.find(number); column != shape.columns.end() && column->second != name)
      shape.former[name] = number;
  std::erase_if(shape.former, [&](const auto& entry) {
    return std::ranges::any_of(shape.columns, [&](const auto& column) {
      return column.first == entry.second && column.second == entry.first;
    });
  });
  return shape;
}

}  // namespace pgbaton::catalog
