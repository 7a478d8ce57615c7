// The queue between two stages: one producer, one consumer, bounded in bytes (G7).
//
// The bound is soft by one element: push waits while the queue holds max_bytes or more, so an element larger than the
// bound still passes, alone. close() ends both sides; an error given to close() is rethrown by the side that meets it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace pgbaton {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Takes `item` and returns true; false when there was no room in time (item is untouched). Throws the closing error,
  // or returns false with closed() true after a plain close().
  bool push_for(T& item, std::size_t bytes, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    room_.wait_for(lock, timeout, [&] { return closed_ || bytes_ < max_bytes_; });
    if (closed_) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    if (bytes_ >= max_bytes_) return false;
    bytes_ += bytes;
    items_.emplace_back(std::move(item), bytes);
    lock.unlock();
    some_.notify_one();
    return true;
  }

  // The oldest element; nullopt when none came in time, or when closed and empty. Elements pushed before close() are
  // still handed out; then the closing error is thrown.
  std::optional<T> pop_for(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    some_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      if (closed_ && error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    auto [item, bytes] = std::move(items_.front());
    items_.pop_front();
    bytes_ -= bytes;
    lock.unlock();
    room_.notify_one();
    return std::move(item);
  }

  void close(std::exception_ptr error = nullptr) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      closed_ = true;
      error_ = error;
    }
    room_.notify_all();
    some_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  // The closing error, null after a plain close().
  std::exception_ptr error() const {
    std::lock_guard lock(mutex_);
    return error_;
  }
  bool empty() const {
    std::lock_guard lock(mutex_);
    return items_.empty();
  }
  std::size_t bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable room_, some_;
  std::deque<std::pair<T, std::size_t>> items_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace pgbaton
