// Builds tables and changes for the tests of apply, and keeps the bytes that the changes look at.
#pragma once
#include <pgbaton/apply/change.hpp>
#include <pgbaton/base/name.hpp>

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace pgbaton::testing {

struct Cell {
  wire::ValueKind kind = wire::ValueKind::null;
  std::string text;

  Cell(const char* value) : kind(wire::ValueKind::text), text(value) {}
  Cell(std::string value) : kind(wire::ValueKind::text), text(std::move(value)) {}
  Cell(int value) : kind(wire::ValueKind::text), text(std::to_string(value)) {}
  explicit Cell(wire::ValueKind k) : kind(k) {}
  bool operator==(const Cell&) const = default;
};
inline const Cell kNull(wire::ValueKind::null);
inline const Cell kUnchanged(wire::ValueKind::unchanged);
using Cells = std::vector<Cell>;

struct ColumnSpec {
  std::string name, type;
  bool is_key = false;
};

inline apply::TargetTable make_table(const std::string& name, const std::vector<ColumnSpec>& columns) {
  apply::TargetTable table;
  table.name = {"public", name};
  table.quoted = table.name.quoted();
  for (const ColumnSpec& spec : columns) {
    apply::TargetColumn column;
    column.name = spec.name;
    column.quoted = quote_identifier(spec.name);
    column.cast_type = spec.type;
    column.type_is_integer = spec.type == "integer" || spec.type == "bigint" || spec.type == "smallint";
    column.is_key = spec.is_key;
    if (spec.is_key) table.key.push_back(table.columns.size());
    table.columns.push_back(column);
  }
  table.key_is_arbiter = !table.key.empty();
  if (table.key.empty()) {
    table.guard = apply::GuardMode::none;
    table.old_rows_are_full = true;
  }
  return table;
}

class ChangeLog {
 public:
  void insert(const apply::TargetTable& table, unsigned lsn, const Cells& row) {
    changes_.push_back({apply::Operation::insert, &table, Lsn{lsn}, tuple(row), {}, {}, false});
  }
  void update(const apply::TargetTable& table, unsigned lsn, const Cells& row, const Cells& old_row = {}) {
    changes_.push_back({apply::Operation::update, &table, Lsn{lsn}, tuple(row), tuple(old_row), {}, false});
  }
  void remove(const apply::TargetTable& table, unsigned lsn, const Cells& old_row) {
    changes_.push_back({apply::Operation::remove, &table, Lsn{lsn}, {}, tuple(old_row), {}, false});
  }
  void truncate(unsigned lsn, const std::vector<const apply::TargetTable*>& tables, bool restart_identity = false) {
    const auto& kept = truncated_.emplace_back(tables);
    changes_.push_back({apply::Operation::truncate, nullptr, Lsn{lsn}, {}, {}, kept, restart_identity});
  }
  const std::vector<apply::Change>& all() const { return changes_; }
  void clear() { changes_.clear(); }

 private:
  wire::Tuple tuple(const Cells& row) {
    auto& values = tuples_.emplace_back();
    for (const Cell& cell : row) values.push_back({cell.kind, texts_.emplace_back(cell.text)});
    return values;
  }
  std::vector<apply::Change> changes_;
  std::deque<std::string> texts_;
  std::deque<std::vector<wire::Value>> tuples_;
  std::deque<std::vector<const apply::TargetTable*>> truncated_;
};

}  // namespace pgbaton::testing
