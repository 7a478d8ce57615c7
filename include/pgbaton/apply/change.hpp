// One row change as the stream hands it to apply. Plain data; all views belong to the transaction part that holds it.
#pragma once
#include <pgbaton/apply/table.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/wire/value.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace pgbaton::apply {

// define: statements that make the target's table fit what follows (drift: add-columns).
enum class Operation : unsigned char { insert, update, remove, truncate, define };

struct Change {
  Operation operation = Operation::insert;
  const TargetTable* table = nullptr;  // for truncate: null
  Lsn commit_lsn;
  // As wide as table->columns. Insert, update: the new row; unchanged values not in a whole insert, and never for a key
  // column (the stream fills those, and everything that REPLICA IDENTITY FULL's old row knows).
  wire::Tuple new_row;
  // Update whose key changed, and delete: the old row; only key columns hold values, or all when old_rows_are_full.
  // Update of a keyless table: the full old row. Otherwise empty.
  wire::Tuple old_row;
  // Truncate: the tables, all of one TRUNCATE, those already outside their boundary left out.
  std::span<const TargetTable* const> truncated;
  bool restart_identity = false;
  // An insert with unchanged values: an update that moved the row into a row filter does not bring its TOAST values.
  bool partial_insert = false;
  std::string_view definition = {};  // SQL of a define: one or several statements, the same when run again

  bool key_changed() const { return operation == Operation::update && !old_row.empty() && !table->key.empty(); }
};

}  // namespace pgbaton::apply
