// The applier's thread: takes chunks from the queue, groups whole source transactions into one target transaction,
// commits them with their progress, and only then confirms to the slot (G3).
//
// Example, window of 4 changes. The queue holds a(2 changes) b(1) c(9, in three chunks) d(1).
//   a and b are pending (3 changes) when the first chunk of c arrives and the window is full: a and b are written and
//   committed with b's end LSN; c's first changes stay pending. They fill a window without a border, so a target
//   transaction is opened and c is written into it part by part, under savepoints. c's border arrives: the rest is
//   written, progress becomes c's end LSN, commit. Readers of the target saw nothing of c before that (G4).
#pragma once
#include <pgbaton/apply/applier.hpp>
#include <pgbaton/base/histogram.hpp>
#include <pgbaton/base/queue.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/source/reader.hpp>
#include <pgbaton/stream/stream.hpp>

#include <atomic>
#include <deque>
#include <vector>

#include "chunk.hpp"
#include "gate.hpp"

namespace pgbaton::stream {

// Written by the stream's threads, read by anyone.
struct Positions {
  std::atomic<std::uint64_t> received{0}, applied{0}, source_flush{0};
  std::atomic<std::int64_t> transactions{0}, changes{0}, last_commit_time{0}, reconnects{0}, slot_held{-1};
  std::atomic<std::uint64_t> queued_bytes{0}, window_bytes{0};  // in the queue, a second ago; with the applier
  std::atomic<bool> connected{false};
  std::atomic<Clock::time_point> level_at{
      Clock::now()};  // `applied` was last seen at the source's end; at first: the start
  Histogram batch_seconds{kSecondsBounds}, batch_changes{kCountBounds}, delay_seconds{kSecondsBounds};
};

struct ApplyLoopOptions {
  std::size_t window_changes = 50'000;
  std::size_t window_bytes = 64u << 20;
  Milliseconds window_age{200};
  Lsn applied_lsn;  // where progress stands
  Lsn until_lsn;    // UntilApplied: end once applied_lsn >= it; 0: when the queue is closed
};

class ApplyLoop {
 public:
  ApplyLoop(BoundedQueue<Chunk>& queue, apply::Applier& applier, source::ChangeReader& reader, Gate& gate,
            Positions& positions, ApplyLoopOptions options);

  // Ends when until_lsn is durable, or after a plain close of the queue once everything whole in it is durable; an
  // unfinished transaction is rolled back. Throws what the applier or the closing error of the queue throws.
  void run();
  bool done() const noexcept { return done_; }
  // Whether a statement runs on the target. Any thread.
  bool busy() const noexcept { return busy_; }

 private:
  // A border with its place in pending_.
  struct PendingBorder {
    std::size_t change_end;
    Border border;
  };

  void absorb(Chunk chunk);
  void abandon_last_transaction();
  bool window_full() const;
  bool window_due(bool queue_is_empty) const;
  void write_window();
  void write(std::size_t count);
  void drop(std::size_t count);
  void measure_batch(std::size_t changes);
  void commit(Lsn applied_lsn, std::int64_t commit_time, std::int64_t transactions, std::size_t changes);
  void commit_position(bool at_once);
  std::size_t borders_below(Lsn limit) const;
  bool serve_cut();
  void finish();

  BoundedQueue<Chunk>& queue_;
  apply::Applier& applier_;
  source::ChangeReader& reader_;
  Gate& gate_;
  Positions& positions_;
  const ApplyLoopOptions options_;

  struct HeldChunk {
    std::size_t change_count;  // of its changes, those still pending
    std::size_t bytes;
    Chunk chunk;
  };
  std::deque<HeldChunk> held_;          // whose bytes pending_ points into
  std::vector<apply::Change> pending_;  // in commit order
  std::deque<PendingBorder> borders_;
  std::size_t held_bytes_ = 0;
  std::size_t written_of_open_ = 0;  // changes of the unfinished transaction that are in the open target transaction
  Clock::time_point oldest_pending_, batch_begun_;
  std::vector<std::int64_t> commit_times_;  // of the source transactions that are being committed
  Clock::time_point last_position_commit_;
  Lsn position_;     // handed out up to here
  Lsn applied_lsn_;  // durable up to here
  std::atomic<bool> done_{false}, busy_{false};
};

}  // namespace pgbaton::stream
