#include "slot_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>

#include "start_replication.hpp"

namespace pgbaton::source {
namespace {

constexpr std::chrono::seconds kTouch{30};
// An advance that takes long is not repeated at once: at most a tenth of the time is spent on it.
constexpr int kRestsPerAdvance = 9;
constexpr Milliseconds kLastWord{10'000};

}  // namespace

SlotKeeper::SlotKeeper(pg::Connection connection, std::string slot, Lsn durable_end_lsn, Milliseconds interval)
    : connection_(std::move(connection)),
      slot_(std::move(slot)),
      interval_(interval),
      confirmed_lsn_(durable_end_lsn.value) {}

SlotKeeper::~SlotKeeper() {
  end(false);
}

void SlotKeeper::begin() {
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void SlotKeeper::run(const std::stop_token& stop) {
  try {
    auto pause = interval_;
    auto last = Clock::now();
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, stop, pause, [] { return false; });
      }
      if (stop.stop_requested()) return;
      const auto began = Clock::now();
      if (confirmed_lsn_ <= told_lsn_ && began - last < kTouch) continue;
      advance(Deadline::never(), stop);
      last = Clock::now();
      pause = std::max(interval_, kRestsPerAdvance * std::chrono::duration_cast<Milliseconds>(last - began));
    }
  } catch (...) {
    if (stop.stop_requested()) return;
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

void SlotKeeper::advance(Deadline deadline, const std::stop_token& stop) {
  const Lsn durable_end_lsn{confirmed_lsn_.load()};
  PGBATON_FAILPOINT("slot_before_advance");
  try {
    const auto result =
        connection_.exec_until(fmt::format("SELECT end_lsn FROM pg_catalog.pg_replication_slot_advance({}, {})",
                                           quote_literal(slot_), quote_literal(to_string(durable_end_lsn))),
                               deadline, stop);
    log::debug("slot {} advanced to {}", slot_, result.rows() == 1 ? result.value(0, 0) : "?");
  } catch (const Error& error) {
    throw as_stream_error(error, slot_);
  }
  PGBATON_FAILPOINT("slot_advanced");
  told_lsn_ = durable_end_lsn.value;
}

void SlotKeeper::confirm(Lsn durable_end_lsn) noexcept {
  auto known = confirmed_lsn_.load();
  while (known < durable_end_lsn.value && !confirmed_lsn_.compare_exchange_weak(known, durable_end_lsn.value)) {
  }
}

void SlotKeeper::rethrow_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void SlotKeeper::end(bool last_word) noexcept {
  try {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    // After a failure the connection may be of no use.
    if (!last_word || failure_ || confirmed_lsn_ <= told_lsn_) return;
    advance(Deadline::after(kLastWord), {});
  } catch (const std::exception& error) {
    log::debug("slot {} stays where it is: {}", slot_, error.what());
  }
}

}  // namespace pgbaton::source
