// `missing: repair`: an update or delete that met no row.
//
//   delete           the row is gone, as it should be: counted and said
//   update, whole    every value is in the change: the row is written as the source had it at that commit
//   update, partial  unchanged values are known to the source alone: the row is fetched as of a position X above the
//                    change and written with guard X. Its changes below X, still on their way, find a newer guard and
//                    are skipped; those from X on follow. Not there at X: it was deleted, or has another key, and
//                    the change that did so comes; nothing is written. Without a guard: Error(rejected).
//
// Example. Update of k at 0/50 leaves out a big value; k is missing. X = 0/90: the source's row, guard 0/90. An update
// of k at 0/70 is stale then, and so would be a delete at 0/60 followed by an insert at 0/80.
#pragma once
#include "row_session.hpp"

#include <pgbaton/apply/row_source.hpp>

namespace pgbaton::apply {

// Counts the change, records and logs it, and puts the row right.
void repair_missing(RowSession& session, const Change& change, wire::Tuple key_row);
// An insert that leaves out values, because the row was moved into a row filter: fetched, in the same way.
void insert_partly(RowSession& session, const Change& change);
// Whether the row was looked for on the source and was gone at a position above this change.
bool is_gone(const RowSession& session, const Change& change, wire::Tuple key_row);
// The row under the new key of a change whose old key's row was skipped as guarded by a newer change.
void arrive_at_new_key(RowSession& session, const Change& change);

}  // namespace pgbaton::apply
