// SQL of one change at a time. Every statement touches at most one row of a table whose key is unique, names its
// columns and gives the guard explicitly; the number of rows it touched is the caller's to read. With a ledger the
// statement writes the key's entry, too, and touches one row for one row of the table.
#pragma once
#include "statement.hpp"

#include <pgbaton/apply/table.hpp>

#include <string_view>

namespace pgbaton::apply {

// Where a row is: its table as UPDATE and DELETE name it, and the commit LSN of the change.
struct RowTarget {
  const TargetTable& table;
  std::string_view scope;
  Lsn commit_lsn;
};

enum class OnConflict {
  fail,      // plain INSERT
  nothing,   // row already there: 0 rows
  overwrite  // row already there and not guarded by a newer LSN: updated
};
// With OnConflict other than fail the key must be an arbiter.
Statement insert_row(const RowTarget& target, wire::Tuple row, OnConflict on_conflict);

// Sets every known column; those of the key only if `sets_key`. A column GENERATED ALWAYS AS IDENTITY cannot be set: it
// is compared instead, 0 rows when it changed.
Statement update_row(const RowTarget& target, wire::Tuple key_row, wire::Tuple row, bool sets_key);
Statement delete_row(const RowTarget& target, wire::Tuple key_row);
// Deletes the row and inserts it with new values in one statement; unchanged ones come from the deleted row.
Statement replace_row(const RowTarget& target, wire::Tuple key_row, wire::Tuple row);
// One row per row with this key: -1, 0 or 1 as its guard is older than, equal to or newer than commit_lsn; NULL: no
// guard. A key without row whose ledger has a newer entry gives 1, too.
Statement compare_guard(const RowTarget& target, wire::Tuple key_row);
// Every column of the row as text, unless it is guarded by a newer LSN.
Statement select_row(const RowTarget& target, wire::Tuple key_row);

// For tables without a key: exactly one of the rows that equal `old_row`.
Statement update_one_equal_row(const RowTarget& target, wire::Tuple old_row, wire::Tuple row);
Statement delete_one_equal_row(const RowTarget& target, wire::Tuple old_row);

}  // namespace pgbaton::apply
