// --max-rate: one budget of bytes per second for all workers of a run.
#pragma once
#include <pgbaton/base/time.hpp>

#include <cstdint>
#include <mutex>

namespace pgbaton {

class RateLimit {
 public:
  explicit RateLimit(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  // Books `bytes` and returns how long the caller has to rest before it moves more. Thread-safe.
  Milliseconds book(std::uint64_t bytes, Clock::time_point now = Clock::now()) {
    if (rate_ == 0) return Milliseconds(0);
    const std::lock_guard lock(mutex_);
    // Time that was not used is lost but for the burst, so that a pause is not followed by a flood.
    if (next_ < now - kBurst) next_ = now - kBurst;
    next_ += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_)));
    return next_ <= now ? Milliseconds(0) : std::chrono::ceil<Milliseconds>(next_ - now);
  }

 private:
  static constexpr Milliseconds kBurst{100};
  const std::uint64_t rate_;
  std::mutex mutex_;
  Clock::time_point next_{};
};

}  // namespace pgbaton
