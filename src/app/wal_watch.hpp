// Looks every second at what the replica's slots hold on the source while a copy or a stream runs, warns by
// wal_budget.hpp (log and events of the replica), and ends the run beyond --wal-budget, as --wal-policy says.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/source/wal_hold.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "context.hpp"
#include "view.hpp"
#include "wal_budget.hpp"

namespace pgbaton::app {

class WalWatch {
 public:
  // only_stop: whatever the policy, nothing is dropped here, and work that has succeeded all the same is a success; for
  // a rebuild, which takes its own slot with it, and must not touch that of the generation that serves.
  enum class Beyond { by_policy, only_stop };
  // `progress`: of the copy that runs, or nullptr; must outlive the watch. Begins at once, in a thread of its own; a
  // source that does not answer is the run's to report.
  WalWatch(const Context& context, const copy::CopyProgress* progress, source::OwnSlots own,
           Beyond beyond = Beyond::by_policy);
  WalWatch(const WalWatch&) = delete;

  // The caller's result of `work(stop_token)`. The token is stopped with the context's own, and beyond the budget: then
  // Error(failed), or Error(boundary_lost) once the slots are dropped, takes the place of whatever came of the work.
  template <typename Work>
  auto run(Work&& work) -> decltype(work(std::stop_token())) {
    try {
      auto result = work(stop_.get_token());
      if (beyond_ == Beyond::by_policy) refuse_if_exceeded();
      return result;
    } catch (const Error&) {
      refuse_if_exceeded();
      throw;
    }
  }

  std::int64_t written_per_second() const { return written_per_second_; }  // WAL, by the source; any thread

 private:
  void watch(const std::stop_token& stop);
  void look(pg::Control& source);
  void tell(const WalNotice& notice);
  void drop_slots(pg::Control& source);  // under mutex_
  void refuse_if_exceeded();

  bool drops() const { return beyond_ == Beyond::by_policy && context_.options.wal_policy == "drop"; }

  const Context& context_;
  const source::OwnSlots own_;
  const Beyond beyond_;
  std::optional<CopyPace> pace_;
  Rate written_;
  WalBudget budget_;
  std::stop_source stop_;
  std::atomic<std::int64_t> written_per_second_{0};
  std::mutex mutex_;
  std::optional<source::WalHold> exceeded_;  // these two under mutex_
  std::string dropped_;
  std::stop_callback<std::function<void()>> with_context_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace pgbaton::app
