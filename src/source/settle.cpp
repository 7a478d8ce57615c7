// A slot builds its snapshot from WAL. A committing backend writes its commit record to WAL first and marks its
// transaction committed in pg_xact a moment later, after the flush (RecordTransactionCommit in xact.c). Between the two
// the slot's snapshot can say "committed" of a transaction that pg_xact does not know as such yet:
//
//   backend, xid 740       slot                          reader of the slot's snapshot
//   WAL: COMMIT 740
//                          decodes it; the snapshot
//                          says: 740 has committed
//                                                        meets a row of 740: not in progress for the snapshot; asks
//                                                        pg_xact: not committed; concludes "aborted" and WRITES that
//                                                        into the row as a hint bit (HeapTupleSatisfiesMVCC)
//   pg_xact: 740 committed
//
// The hint outlives everything: the row is invisible to every session from now on, and gone with the next VACUUM, an
// acknowledged insert lost on the source itself. An ordinary snapshot cannot show this, because it takes the list of
// running transactions, which a backend leaves only after pg_xact has been written.
//
// So nothing is read until every transaction that the snapshot shows has left that list. The query below reads no user
// table; catalog look-ups use the server's own snapshot. txid_status() answers from the list of running transactions.
#include "settle.hpp"

#include <pgbaton/base/failpoint.hpp>

namespace pgbaton::source {
namespace {

// The wait is one WAL flush long, milliseconds. One that commits to a synchronous standby that is gone takes for ever.
constexpr Milliseconds kLongestPause{50};

constexpr const char* kUnsettledQuery = R"(
with s as materialized (select txid_current_snapshot() s)
select x from s, generate_series(txid_snapshot_xmin(s), txid_snapshot_xmax(s) - 1) x
 where txid_visible_in_snapshot(x, s) and txid_status(x) = 'in progress')";

}  // namespace

bool settle(pg::Connection& holder, Deadline deadline, const std::stop_token& stop) {
  // Only so that a test can show what happens without.
  if (PGBATON_FAILPOINT_SET("skip_settling")) return true;
  for (Milliseconds pause{1};; pause = std::min(pause * 2, kLongestPause)) {
    if (holder.exec_until(kUnsettledQuery, deadline, stop).rows() == 0) return true;
    if (deadline.passed()) return false;
    sleep_for(pause, stop);
  }
}

}  // namespace pgbaton::source
