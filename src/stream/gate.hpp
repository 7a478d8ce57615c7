// Where a cut meets the applier. A requester asks for a position; the applier arrives there, hands out the Cut and
// rests until it is destroyed. One cut at a time. Any thread may ask; only the applier's thread arrives and rests.
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
  std::future<Cut> ask(Lsn cut_lsn) {
    std::lock_guard lock(mutex_);
    if (wanted_) {
      throw Error(ErrorKind::failed, "another cut of this replica is under way")
          .action(Action::retry)
          .hint("Try again when it has ended.");
    }
    wanted_ = cut_lsn;
    resting_ = false;
    promise_ = std::promise<Cut>();
    return promise_.get_future();
  }

  std::optional<Lsn> wanted() const {
    std::lock_guard lock(mutex_);
    return resting_ ? std::nullopt : wanted_;
  }

  // Hands out the cut and rests until it is released or `interrupted()`.
  template <typename Interrupted>
  void arrive_and_rest(Interrupted&& interrupted) {
    std::unique_lock lock(mutex_);
    if (!wanted_) return;
    resting_ = true;
    // Weak, so that a Cut which outlives its stream does no harm.
    std::shared_ptr<void> release(nullptr, [gate = weak_from_this()](void*) {
      if (auto alive = gate.lock()) alive->release();
    });
    promise_.set_value(Cut(*wanted_, std::move(release)));
    while (wanted_ && !interrupted()) changed_.wait_for(lock, std::chrono::milliseconds(50));
    wanted_.reset();
    resting_ = false;
  }

  // The applier cannot serve the cut: it is beyond it, or ends.
  void refuse(const Error& error) {
    std::lock_guard lock(mutex_);
    if (!wanted_ || resting_) return;
    promise_.set_exception(std::make_exception_ptr(error));
    wanted_.reset();
  }

 private:
  void release() {
    {
      std::lock_guard lock(mutex_);
      wanted_.reset();
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Lsn> wanted_;
  bool resting_ = false;
  std::promise<Cut> promise_;
};

}  // namespace pgbaton::stream
