#include "stream_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace pgbaton::stream {

namespace {

constexpr std::chrono::seconds kWindow{10};

std::uint64_t distance(Lsn from, Lsn to) {
  return to > from ? to.value - from.value : 0;
}

}  // namespace

double seconds_since(std::int64_t pg_timestamp_us) {
  using namespace std::chrono;
  constexpr sys_days kPostgresEpoch = year{2000} / January / 1;
  const auto then = kPostgresEpoch + microseconds(pg_timestamp_us);
  return std::max(0.0, duration<double>(system_clock::now() - then).count());
}

StreamStatus read_status(const Positions& positions) {
  StreamStatus status;
  status.received_lsn = Lsn{positions.received};
  status.applied_lsn = Lsn{positions.applied};
  status.confirmed_lsn = status.applied_lsn;
  // Asked for once a second; what was received since is on the source's disk, too.
  status.source_flush_lsn = Lsn{positions.source_flush};
  if (status.source_flush_lsn) status.source_flush_lsn = std::max(status.source_flush_lsn, status.received_lsn);
  status.transactions = positions.transactions;
  status.changes = positions.changes;
  status.reconnects = positions.reconnects;
  status.connected = positions.connected;
  status.slot_held_bytes = positions.slot_held;
  status.queue_bytes = positions.queued_bytes + positions.window_bytes;
  if (status.applied_lsn < status.source_flush_lsn) {
    // After an idle hour the last commit is an hour old, and the lag is not; before the first one there is none.
    const auto since_level = std::chrono::duration<double>(Clock::now() - positions.level_at.load()).count();
    const auto last_commit_time = positions.last_commit_time.load();
    status.lag_seconds = last_commit_time == 0 ? since_level : std::min(seconds_since(last_commit_time), since_level);
  }
  return status;
}

state::Fields StreamReport::update(const StreamStatus& status, Clock::time_point now) {
  while (samples_.size() > 1 && now - samples_.front().at > kWindow) samples_.pop_front();
  samples_.push_back({now, status});
  state::Fields report{{"source_flush", to_string(status.source_flush_lsn)},
                       {"lag_seconds", fmt::format("{:.3f}", status.lag_seconds)},
                       {"slot_held_bytes", std::to_string(status.slot_held_bytes)},
                       {"reconnects", std::to_string(status.reconnects)}};
  const auto& first = samples_.front();
  const double seconds = std::chrono::duration<double>(now - first.at).count();
  if (seconds <= 0) return report;
  const auto rate = [&](const char* name, auto amount) {
    report[name] = fmt::format("{:.1f}", static_cast<double>(amount) / seconds);
  };
  rate("transactions_per_second", status.transactions - first.status.transactions);
  rate("changes_per_second", status.changes - first.status.changes);
  rate("applied_bytes_per_second", distance(first.status.applied_lsn, status.applied_lsn));
  rate("source_bytes_per_second", distance(first.status.source_flush_lsn, status.source_flush_lsn));
  return report;
}

}  // namespace pgbaton::stream
