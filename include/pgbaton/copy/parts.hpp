// Copying one table in parts: ranges of its blocks, read by several workers at a time (--split-above).
//
// A part is COPY (SELECT … WHERE ctid >= '(first,0)' AND ctid < '(end,0)'): row versions that a snapshot sees do not
// move, so the ranges hold every row once, whatever VACUUM does meanwhile. The last range has no end, and whatever the
// table has grown by belongs to it. Each part is committed with its row in pgbaton.copy_part, and the last one with the
// table's own state. Parts belong to one snapshot: when it is gone, the table is emptied and taken anew.
//
// It pays with idle cores on both servers, and where one table is a large share of all rows. Otherwise it costs: parts
// of one table wait for each other when it is extended, and its rows are not frozen.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/copy/copy.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace pgbaton::copy {

struct SplitRule {
  std::uint64_t above = 0;  // bytes of heap and TOAST; 0: nothing is split
  int jobs = 1;             // one worker gains nothing from parts
  int source_version = 0;   // 140000 and above read a range of ctid without reading the whole table
};

struct BlockRange {
  std::int64_t first = 0;
  std::optional<std::int64_t> end;  // none: to the end of the table, wherever it is by then
};

// Ranges of about equal size in blocks, so many that none has more than `above` bytes on average; one when the table is
// copied in one piece.
std::vector<BlockRange> plan_parts(const catalog::Table& table, const SplitRule& rule);

// For a table that is copied no more though parts of it were committed (phase copying): empties it on the target,
// forgets its parts and stores `state`, in one transaction.
void discard_parts(const pg::Endpoint& target, const state::Replica& replica, const state::TableState& state);

}  // namespace pgbaton::copy
