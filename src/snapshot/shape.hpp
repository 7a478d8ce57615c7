// A recorded shape (catalog::shape_json) against a table of now.
#pragma once
#include <pgbaton/catalog/table.hpp>

#include <string>
#include <vector>

namespace pgbaton::snapshot {

struct ShapeChange {
  bool readable = false;             // there is a record
  bool same_columns = false;         // same numbers, same names
  bool same_file = false;            // not rewritten since
  std::vector<std::string> dropped;  // recorded names that no column has any more, and whose columns are gone
  std::vector<std::string> other;    // recorded names that another column has now: made anew, or exchanged
};
ShapeChange compare_with_shape(const std::string& shape, const catalog::Table& table);

}  // namespace pgbaton::snapshot
