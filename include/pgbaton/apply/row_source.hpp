// Where apply gets a row that the target does not have and that a change does not bring whole. Implemented above it,
// because apply and source never see each other.
#pragma once
#include <pgbaton/apply/change.hpp>

#include <optional>
#include <string>
#include <vector>

namespace pgbaton::apply {

// A row as the source has it at a position: every change with commit LSN < lsn is in it, none at or above.
struct FetchedRow {
  Lsn lsn;
  bool found = false;  // false: not there (deleted since, it has another key now, or a row filter hides it)
  std::vector<std::optional<std::string>> values;  // as wide as the table's columns
};

// Called by the applier's thread. Errors with action retry make the stream connect anew.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // The row with the key that `key_row` holds, at a position above the change's commit LSN.
  virtual FetchedRow fetch(const Change& change, wire::Tuple key_row) = 0;
  // The transaction has ended: what was kept for further rows of it may go.
  virtual void release() noexcept = 0;
};

}  // namespace pgbaton::apply
