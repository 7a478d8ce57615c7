// What the writer of a stream tells about once a second in pgbaton.progress.report, for `status` from any machine.
// Rates are over the last seconds; an average since the start would say nothing about now.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/stream/stream.hpp>

#include <deque>

#include "apply_loop.hpp"

namespace pgbaton::stream {

// From a source transaction's commit, microseconds since 2000-01-01, until now by our clock; never negative.
double seconds_since(std::int64_t commit_time);
StreamStatus read_status(const Positions& positions);

class StreamReport {
 public:
  // Keys: source_flush, lag_seconds, slot_held_bytes, reconnects; from the second call on transactions_per_second,
  // changes_per_second, applied_bytes_per_second and source_bytes_per_second (of WAL).
  state::Fields update(const StreamStatus& status, Clock::time_point now);

 private:
  struct Sample {
    Clock::time_point at;
    StreamStatus status;
  };
  std::deque<Sample> samples_;
};

}  // namespace pgbaton::stream
