// One stop for somebody else's request and for a limit of time.
#pragma once
#include <pgbaton/base/time.hpp>

#include <atomic>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

namespace pgbaton {

// Its thread ends with it. Not to be moved.
class TimeLimit {
 public:
  // nullopt: no limit. The time runs from now on.
  TimeLimit(std::optional<Milliseconds> limit, const std::stop_token& stop)
      : forward_(stop, [this] { stop_.request_stop(); }) {
    if (!limit) return;
    thread_ = std::jthread([this, limit = *limit](const std::stop_token& lifted) {
      if (!sleep_for(limit, lifted)) return;
      passed_ = true;
      stop_.request_stop();
    });
  }
  std::stop_token token() const { return stop_.get_token(); }
  bool passed() const { return passed_; }
  // From here on only the other one stops; by one thread.
  void lift() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

 private:
  std::atomic<bool> passed_{false};
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> forward_;
  std::jthread thread_;
};

}  // namespace pgbaton
