// Where a cut meets the applier. A requester asks for a position; the applier arrives there, hands out the Cut and
// rests until it is destroyed. Any thread may ask; only the applier's thread arrives and rests.
//
//   rest(): where the applier stands, at the next border of transactions
//   ask(X): at X. Allowed while nobody is served, and while the applier rests after rest(): it then goes on, to X.
//
// Example: rest() hands out a Cut at 0/900; a temporary slot is made, whose consistent point is 0/A40; ask(0/A40) lets
// the applier write the transactions in between and rest again. Asked without rest() before, 0/A40 would be behind a
// busy applier by the time the slot is there.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/stream/stream.hpp>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

namespace pgbaton::stream {

class Gate : public std::enable_shared_from_this<Gate> {
 public:
  std::future<Cut> rest() { return ask(Lsn{}); }

  std::future<Cut> ask(Lsn cut_lsn) {
    std::lock_guard lock(mutex_);
    if (wanted_ || (held_ != 0 && !held_is_rest_)) {
      throw Error(ErrorKind::failed, "another cut of this replica is under way")
          .action(Action::retry)
          .hint("Try again when it has ended.");
    }
    wanted_ = cut_lsn;
    promise_ = std::promise<Cut>();
    changed_.notify_all();
    return promise_.get_future();
  }

  // What the applier is to go for; Lsn 0: to rest where it stands.
  std::optional<Lsn> wanted() const {
    std::lock_guard lock(mutex_);
    return wanted_;
  }

  // Hands out the cut and rests until it is released, another position is asked for, or `interrupted()`.
  template <typename Interrupted>
  void arrive_and_rest(Lsn at_lsn, Interrupted&& interrupted) {
    std::unique_lock lock(mutex_);
    if (!wanted_) return;
    held_is_rest_ = !*wanted_;
    const auto mine = held_ = ++served_;
    wanted_.reset();
    // Weak, so that a Cut which outlives its stream does no harm.
    std::shared_ptr<void> release(nullptr, [gate = weak_from_this(), mine](void*) {
      if (auto alive = gate.lock()) alive->release(mine);
    });
    promise_.set_value(Cut(at_lsn, std::move(release), [gate = weak_from_this(), mine] {
      const auto alive = gate.lock();
      return alive && alive->holds(mine);
    }));
    while (held_ == mine && !wanted_ && !interrupted()) changed_.wait_for(lock, std::chrono::milliseconds(50));
    if (held_ == mine) held_ = 0;
  }

  // For one that waits no longer: what was asked for is taken back, and what was handed out unseen is released.
  void withdraw() {
    std::promise<Cut> forgotten;  // destroyed after the lock: a Cut in it locks, too
    {
      std::lock_guard lock(mutex_);
      wanted_.reset();
      std::swap(forgotten, promise_);
    }
    changed_.notify_all();
  }

  // The applier cannot serve the cut: it is beyond it, or ends.
  void refuse(const Error& error) {
    std::lock_guard lock(mutex_);
    if (!wanted_) return;
    promise_.set_exception(std::make_exception_ptr(error));
    wanted_.reset();
  }

 private:
  // A rest that was asked to go on to a position is not held any more.
  bool holds(std::uint64_t served) const {
    std::lock_guard lock(mutex_);
    return held_ == served && !wanted_;
  }

  void release(std::uint64_t served) {
    {
      std::lock_guard lock(mutex_);
      if (held_ == served) held_ = 0;
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Lsn> wanted_;
  std::uint64_t served_ = 0;  // cuts handed out so far
  std::uint64_t held_ = 0;    // the one being held, 0 none
  bool held_is_rest_ = false;
  std::promise<Cut> promise_;
};

}  // namespace pgbaton::stream
