// Time: deadlines are steady-clock points, durations are chrono, user input is "500ms|120s|5m|2h", a bare number
// seconds.
#pragma once
#include <algorithm>
#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>

namespace pgbaton {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

class Deadline {
 public:
  // A duration beyond the clock's range (about 290 years) is "never".
  static Deadline after(Milliseconds duration) {
    if (duration > std::chrono::hours(24 * 366 * 100)) return never();
    return Deadline(Clock::now() + duration);
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  // Never negative, at most `at_most`: what a poll() may wait.
  Milliseconds left(Milliseconds at_most) const {
    if (at_ == Clock::time_point::max()) return at_most;
    auto rest = std::chrono::ceil<Milliseconds>(at_ - Clock::now());
    return rest < Milliseconds(0) ? Milliseconds(0) : std::min(rest, at_most);
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

// Throws Error(usage) that names `what`.
Milliseconds parse_duration(std::string_view text, std::string_view what);
std::string format_duration(Milliseconds duration);  // "850 ms", "12.3 s", "5 m 10 s"

// Sleeps, but wakes at once when a stop is requested. True if the whole time passed.
bool sleep_for(Milliseconds duration, const std::stop_token& stop);

// Reconnect waits: doubling from `first` to `cap`, each with up to 25 % of random jitter so that many replicas of one
// server do not come back in step. reset() after success.
class Backoff {
 public:
  explicit Backoff(Milliseconds first = Milliseconds(200), Milliseconds cap = Milliseconds(10'000))
      : first_(first), cap_(cap), next_(first) {}
  Milliseconds next();
  void reset() { next_ = first_; }

 private:
  Milliseconds first_, cap_, next_;
};

}  // namespace pgbaton
