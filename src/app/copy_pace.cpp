#include <algorithm>

#include "view.hpp"

namespace pgbaton::app {

namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

// Lines come every 10 s: the first one may find tables that have been copied for seconds, and says how fast they go.
void CopyPace::begin(double share, Clock::time_point now) {
  copying_since_ = now;
  share_before_ = share;
  double bytes_per_second = 0;
  for (const auto& table : progress_.in_flight.list())
    if (const double seconds = seconds_between(table->since, now); !table->indexing && seconds > 0)
      bytes_per_second += static_cast<double>(table->bytes.load()) / seconds;
  bytes_rate_.begin(progress_.bytes, bytes_per_second, now);
}

CopyPace::Look CopyPace::look(Clock::time_point now) {
  Look look;
  std::int64_t in_hand = 0;
  for (const auto& table : progress_.in_flight.list())
    if (!table->indexing) in_hand += std::min(table->bytes.load(), table->bytes_total);
  look.size_copied = progress_.size_done + in_hand;
  look.share = share_of_tables(progress_.tables_done, look.size_copied);
  // From when the first table is copied: what an earlier run has copied is no speed of this one.
  if (progress_.step == copy::Step::tables) {
    if (!copying_since_) begin(look.share, now);
    bytes_per_second_ = static_cast<std::int64_t>(bytes_rate_.update(progress_.bytes, now));
    rows_per_second_ = static_cast<std::int64_t>(rows_rate_.update(progress_.rows, now));
  }
  look.bytes_per_second = bytes_per_second_;
  look.rows_per_second = rows_per_second_;
  if (look.share < 1 && copying_since_) {
    const double passed = seconds_between(*copying_since_, now), gained = look.share - share_before_;
    look.begun = true;
    if (passed >= 1 && gained >= 0.001) look.seconds_left = passed * (1 - look.share) / gained;
  }
  return look;
}

double CopyPace::share_of_tables(std::int64_t tables, std::int64_t size) const {
  if (tables >= progress_.tables_total) return 1;
  const std::int64_t total = progress_.bytes_total;
  const double share = total > 0 ? static_cast<double>(size) / static_cast<double>(total) : 0;
  return std::clamp(share, 0.0, 0.99);
}

}  // namespace pgbaton::app
