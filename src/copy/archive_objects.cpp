#include "archive_objects.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <pgbaton/embedded_sql.hpp>
#include <set>
#include <utility>

namespace pgbaton::copy {
namespace {

constexpr std::uint32_t kClassRelation = 1259;  // pg_class

struct Object {
  QualifiedName table, referenced;
  char table_kind = ' ';
  std::string name;
  bool populated = false, left_out = false;
};
using ObjectMap = std::map<std::pair<std::uint32_t, std::uint32_t>, Object>;

std::uint32_t to_oid(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

ObjectMap load_objects(pg::Connection& source, const std::vector<QualifiedName>& excluded_tables) {
  std::vector<std::string> schemas, names;
  for (const auto& table : excluded_tables) {
    schemas.push_back(table.schema);
    names.push_back(table.name);
  }
  const auto schema_array = text_array(schemas), name_array = text_array(names);
  const std::array<pg::Parameter, 2> parameters{schema_array, name_array};
  const auto rows = source.exec(std::string(sql::archive_objects), parameters);
  ObjectMap objects;
  for (int i = 0; i < rows.rows(); ++i) {
    Object object;
    object.table = {rows.text(i, 2), rows.text(i, 3)};
    object.table_kind = rows.is_null(i, 4) ? ' ' : rows.value(i, 4).front();
    object.name = rows.text(i, 5);
    object.referenced = {rows.text(i, 6), rows.text(i, 7)};
    object.populated = rows.value(i, 8) == "t";
    object.left_out = rows.value(i, 9) == "t";
    objects.emplace(std::pair(to_oid(rows.value(i, 0)), to_oid(rows.value(i, 1))), std::move(object));
  }
  return objects;
}

// Comments, grants and labels have no oid of their own: they go with what they belong to.
void leave_out_dependents(std::vector<TocEntry>& entries) {
  std::set<int> left_out;
  for (auto& entry : entries) {
    const bool belongs =
        entry.class_oid == 0 && std::ranges::any_of(entry.dependencies, [&](int id) { return left_out.contains(id); });
    entry.left_out = entry.left_out || belongs;
    if (entry.left_out) left_out.insert(entry.id);
  }
}

}  // namespace

std::string text_array(const std::vector<std::string>& values) {
  std::string text = "{";
  for (const auto& value : values) {
    text += text.size() == 1 ? "\"" : ",\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += '"';
  }
  return text + "}";
}

void resolve_objects(pg::Connection& source, const std::vector<QualifiedName>& excluded_tables,
                     std::vector<TocEntry>& entries) {
  const auto objects = load_objects(source, excluded_tables);
  for (auto& entry : entries) {
    // ROW SECURITY carries the table's oid without a class.
    const auto class_oid = entry.class_oid == 0 ? kClassRelation : entry.class_oid;
    const auto found = objects.find({class_oid, entry.catalog_oid});
    if (found == objects.end()) continue;
    const auto& object = found->second;
    entry.table = object.table;
    entry.table_kind = object.table_kind;
    entry.object = object.name;
    entry.referenced = object.referenced;
    entry.populated = object.populated;
    entry.left_out = object.left_out;
  }
  leave_out_dependents(entries);
}

}  // namespace pgbaton::copy
