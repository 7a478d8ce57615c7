// Advances the replica's slot while nobody streams from it, in a thread and on a connection of its own, because each
// advance reads the WAL from the slot's restart_lsn on. Also unmoved it is touched now and then, or 18 might invalidate
// it as idle (idle_replication_slot_timeout).
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/connection.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace pgbaton::source {

class SlotKeeper {
 public:
  SlotKeeper(pg::Connection connection, std::string slot, Lsn durable_end_lsn, Milliseconds interval);
  ~SlotKeeper();
  SlotKeeper(const SlotKeeper&) = delete;
  SlotKeeper& operator=(const SlotKeeper&) = delete;

  void begin();
  // Any thread. Monotone.
  void confirm(Lsn durable_end_lsn) noexcept;
  Lsn told_lsn() const noexcept { return Lsn{told_lsn_.load()}; }
  // What went wrong in the thread.
  void rethrow_failure();
  // Ends the thread; then says what was confirmed since, if `last_word`. Nothing is lost when that fails.
  void end(bool last_word) noexcept;

 private:
  void run(const std::stop_token& stop);
  void advance(Deadline deadline, const std::stop_token& stop);

  pg::Connection connection_;
  const std::string slot_;
  const Milliseconds interval_;
  std::atomic<std::uint64_t> confirmed_lsn_, told_lsn_{0};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace pgbaton::source
