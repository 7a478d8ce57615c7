// The stream: reader → decoder → assembler → (bounded queue) → applier → durable → confirm. Everything above drives
// replication through this class and nothing else; it is the only module that sees source, wire and apply.
#pragma once
#include <pgbaton/base/histogram.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/source/open_reader.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/store.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

namespace pgbaton::stream {

// SQLSTATE of the Error(rejected) that ends a stream at a row of a table which the replica does not know.
inline constexpr std::string_view kUnknownTable = "42P01";
// How long tombstones and ledger entries stay beyond what is needed (pgbaton/state/retention.hpp).
struct RetentionOptions {
  bool always = false;                 // --tombstones always: every delete leaves one
  std::optional<std::uint64_t> bytes;  // of WAL
  std::optional<Milliseconds> time;
};

struct StreamOptions {
  pg::Endpoint source, target;
  std::uint64_t memory_bytes = 256u << 20;                    // --memory: queue and window together
  std::size_t window_changes = 50'000;                        // a window is written when one of these is reached …
  Milliseconds window_age{200};                               // … or the queue is empty
  source::ReaderMode reader = source::ReaderMode::walsender;  // --reader
  bool change_by_change = false;                              // for tests: the strategy without batches
  bool add_columns = false;                                   // --drift add-columns
  bool repair_missing = false;                                // --missing repair
  std::uint64_t ready_lag_bytes = 16u << 20;                  // --ready-lag: ready only while the lag is below it
  RetentionOptions retention;
  // No connection that lasts for so long, or, when the run shall end by itself, nothing that moves: Error(timed_out).
  std::optional<Milliseconds> give_up_after;
};

// When run() ends by itself.
struct OpenEnded {};
struct UntilApplied {  // at a transaction border, once everything with commit LSN < lsn is durable
  Lsn lsn;
};
struct UntilEndLsn {  // exactly the transactions with end LSN <= lsn
  Lsn lsn;
};
using Until = std::variant<OpenEnded, UntilApplied, UntilEndLsn>;

enum class Ended { reached, stopped };

struct StreamStatus {
  Lsn received_lsn, applied_lsn, confirmed_lsn, source_flush_lsn;
  std::int64_t transactions = 0, changes = 0, reconnects = 0;
  double lag_seconds = 0;
  bool connected = false;             // else it stands still: connecting, or waiting to try again
  std::uint64_t queue_bytes = 0;      // changes received and not durable yet, about; below StreamOptions::memory_bytes
  std::int64_t slot_held_bytes = -1;  // WAL that the slot keeps on the source; -1 unknown
};

// Since the stream was made, whatever it reconnected. Batches are target transactions that wrote rows.
struct StreamMeasures {
  HistogramCounts batch_seconds;  // from the first statement of a batch until it is committed
  HistogramCounts batch_changes;
  HistogramCounts delay_seconds;  // of each source transaction, from its commit there until it is durable on the
                                  // target; by the clocks of the source and of this machine
};

// While it lives the target holds exactly the transactions with commit LSN < lsn, and the appliers rest: as long as
// held(). A lost connection ends the cut, because the stream goes on when it has reconnected. So whoever opens a
// snapshot of the target under a cut asks held() afterwards, and throws the snapshot away when it is false.
class Cut {
 public:
  Cut(Lsn lsn, std::shared_ptr<void> release, std::function<bool()> held)
      : lsn_(lsn), release_(std::move(release)), held_(std::move(held)) {}
  Lsn lsn() const { return lsn_; }
  bool held() const { return held_(); }  // any thread

 private:
  Lsn lsn_;
  std::shared_ptr<void> release_;  // destroying it lets the appliers go on
  std::function<bool()> held_;
};

class Stream {
 public:
  // The lease must outlive the stream. The replica must be copied (phase streaming or ready).
  Stream(StreamOptions options, state::Replica replica, state::Lease& lease);
  ~Stream();
  Stream(const Stream&) = delete;

  // Runs in the calling thread until `until`, a stop, or an error that no reconnect can mend. Reconnects by itself,
  // with backoff and a log line. When it ends without error, all that was applied is durable and confirmed.
  Ended run(const Until& until, const std::stop_token& stop);
  // From any thread, while run() runs. One cut at a time.
  // rest(): where the appliers stand, at the next border of transactions. cut(): at cut_lsn; fails when the applied
  // position is already beyond it, so let the stream rest first, take the position, then the cut: the appliers go on to
  // it.
  std::future<Cut> rest();
  std::future<Cut> cut(Lsn cut_lsn);
  void withdraw();  // for one that waits no longer for what it asked for, and has not taken it
  Lsn durable_end_lsn() const noexcept;
  StreamStatus status() const;      // any thread
  StreamMeasures measures() const;  // any thread

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgbaton::stream
