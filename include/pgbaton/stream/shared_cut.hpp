// A cut for another process, or for another part of this one: both sides at one moment, as two snapshots.
//
//   requester                                     writer (session's housekeeper, cut_service.hpp)
//   row "cut" in pgbaton.request           →      look for long write transactions: one there, no try
//                                                 rest the appliers
//                                                 temporary slot, settled snapshot: consistent point X
//                                                 appliers go on to X; snapshot of the target
//   imports both, exports them again       ←      {cut_lsn, source_snapshot, target_snapshot, pause_ms}
//   removes the row                        →      lets go of slot and snapshots
//
// The appliers rest from the second line of the writer to the fourth, 2 s at most; a try that takes longer is given up
// and made again a little later, until `deadline`. From the moment request() returns nothing depends on the writer: the
// snapshots live as long as the SharedCut. With `hold` the appliers rest on, until release() or for that long at most:
// whoever changes the target meanwhile does so in a transaction that locks the progress row and finds `lsn()` in it
// (hold_still()); then nobody can have applied anything since, and nobody can while that transaction is open.
//
// A requester that dies is noticed by its session on the target; its cut is released.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/state/store.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace pgbaton::stream {

struct CutRequest {
  pg::Endpoint source, target;
  std::string replica;
  std::optional<Milliseconds> hold;
  Deadline deadline = Deadline::never();
  std::function<void()> while_waiting;  // called often; what it throws ends the wait
};

class SharedCut {
 public:
  // Errors: timed_out when no writer takes the request within 30 s, or at the deadline, then naming what stood in the
  // way; failed (retry) when the writer died; failed when `stop` came.
  static SharedCut request(const CutRequest& request, const std::stop_token& stop);
  SharedCut(SharedCut&&) noexcept;
  ~SharedCut();

  // Both sides show exactly the transactions with commit LSN < lsn().
  Lsn lsn() const { return lsn_; }
  const std::string& source_snapshot() const { return source_snapshot_; }
  const std::string& target_snapshot() const { return target_snapshot_; }
  // How long the appliers rested until the snapshots were there; with `hold` they still do.
  Milliseconds pause() const { return pause_; }
  // Lets the appliers go on; only after `hold`. Whole time of rest.
  Milliseconds release();

 private:
  struct Asking;
  SharedCut();
  std::unique_ptr<Asking> asking_;  // while held
  std::optional<pg::Connection> source_, target_;
  std::string source_snapshot_, target_snapshot_;
  Lsn lsn_;
  Milliseconds pause_{0};
  Clock::time_point since_;
};

// The row lock that keeps every applier, and a switchover's flip, from committing; false when the target is not at
// `cut_lsn` any more, or has been flipped. Inside a
// READ COMMITTED transaction of the caller, before it reads or writes.
bool hold_still(pg::Connection& target, const state::Replica& replica, Lsn cut_lsn);

}  // namespace pgbaton::stream
