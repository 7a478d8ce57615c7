// The shape of a source's table as it was recorded once: what later looks at the catalogs are compared with. Kept as
// JSON in pgbaton.table_state.source_shape. Pure: no connection.
//
//   {"filenode": 16384, "attributes": 3, "columns": {"1": "id", "3": "v"}, "versions": {"1": "731", "3": "731"},
//    "parents": "16380:731", "former": {"u": 3}, "toast": 16390}
//
// An attribute number belongs to one column for ever (src/backend/catalog/heap.c, RemoveAttributeById keeps the row).
#pragma once
#include <pgbaton/catalog/table.hpp>

#include <map>
#include <optional>
#include <string>

namespace pgbaton::catalog {

struct Shape {
  Oid filenode = 0;
  Oid toast = 0;                        // the TOAST table; 0: none, or not known
  int attributes = 0;                   // relnatts: numbers up to it were given when this was recorded
  std::map<int, std::string> columns;   // by attribute number; without the guard column
  std::map<int, std::string> versions;  // xmin of the column's row in pg_attribute: another one after ALTER COLUMN
  std::optional<std::string> parents;   // Table::parents; nothing: recorded by a version that did not know it
  std::map<std::string, int> former;    // names that a column had in earlier shapes, and no column has in this one

  // The number of the column that had this name, now or formerly; 0 none.
  int number_of(const std::string& column) const;
  // Whether ALTER COLUMN or RENAME has touched it since; false for one that is not recorded.
  bool was_altered(const Column& column) const;
};

Shape shape_of(const Table& table);
std::string to_json(const Shape& shape);
inline std::string shape_json(const Table& table) {
  return to_json(shape_of(table));
}
// Nothing when there is no record that can be read.
std::optional<Shape> parse_shape(const std::string& json);

// What has become of a recorded table.
struct ShapeChange {
  std::map<int, std::string> gone;   // recorded columns that were dropped
  std::vector<std::string> other;    // recorded names that another column has now: made anew, or exchanged
  std::vector<std::string> unclear;  // new columns with a number above one that came and went unrecorded: rows may have
                                     // been sent with the values of a former column of the same name
  std::vector<std::string> altered;  // columns that were altered while the table was rewritten (ALTER COLUMN TYPE)
  bool moved = false;                // attached to or detached from a parent
};
ShapeChange compare(const Shape& recorded, const Table& now);
// Whether columns with numbers below `number` came and went since the record.
bool has_gap_below(const Shape& recorded, const Table& now, int number);
// `now` as the record of the future; columns of `kept` (dropped on the source, still on the target) and former names
// are carried on.
Shape succeed(const Shape& recorded, const Table& now, const std::map<int, std::string>& kept);

}  // namespace pgbaton::catalog
