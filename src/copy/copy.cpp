// The workers. Each holds one connection on each side:
//
//   source  in the snapshot's transaction, opened before anything is copied: from then on the worker does not need the
//   holder target  in autocommit, session_replication_role = replica where that is allowed
//
// A lost connection is opened again and the table, or the part, starts anew. Lost on the source, that works while the
// holder's snapshot can still be imported; a worker that cannot come back hands its table to the others, which still
// hold the snapshot, and ends. What nobody is left to take is `unfinished`. The calling thread watches: it cancels
// running statements when all are to end, and asks the target which COPY has been refused, because libpq says so only
// after the last row.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/pg/sqlstate.hpp>
#include <pgbaton/source/slot.hpp>
#include <thread>

#include "pool.hpp"
#include "table_copy.hpp"

namespace pgbaton::copy {
namespace {

// A table that fails this often on connections that could be opened has a cause that time does not mend.
constexpr int kTriesPerTable = 5;
// A cancel that arrives between two statements is lost, so it is sent again at this interval.
constexpr Milliseconds kCancelInterval{200};
constexpr Milliseconds kRefusalInterval{500};

class SnapshotGone {};

class Worker {
 public:
  Worker(Pool& pool, int number) : pool_(pool), role_(fmt::format("copy-{}", number)) {}

  void run() noexcept {
    try {
      work();
    } catch (...) {
      pool_.fail(std::current_exception());
    }
    ended_ = true;
  }
  bool ended() const { return ended_; }

  // From the watching thread.
  void cancel() {
    pg::Canceller source, target;
    {
      const std::lock_guard lock(mutex_);
      source = source_canceller_;
      target = target_canceller_;
    }
    source.cancel();
    target.cancel();
  }
  int target_pid() const { return target_pid_; }
  void mark_target_failed() { target_failed_ = true; }

 private:
  void work() {
    try {
      open_both();
      while (auto work = pool_.take()) copy_one(*work);
    } catch (const SnapshotGone&) {
      log::warning("the copy's snapshot cannot be imported any more; worker {} ends", role_);
    }
  }

  void copy_one(const Work& work) {
    Counted counted;
    counted.shown = pool_.context().progress.in_flight.add(work.name(), false, work.bytes_total());
    Backoff backoff;
    for (int tries = 1;; ++tries) {
      try {
        open_both();
      } catch (const SnapshotGone&) {
        pool_.put_back(work);
        throw;
      }
      try {
        target_failed_ = false;
        const auto outcome = TableCopy(pool_, *source_, *target_, target_failed_).run(work, counted);
        leave_source();
        pool_.done(work, outcome);
        return;
      } catch (const Error& error) {
        if (error.action() != Action::retry || tries >= kTriesPerTable || pool_.halted()) throw;
        if (const auto& ask = pool_.context().options.before_retry) ask();
        log::warning("{}; trying again ({} of {})", error.describe(), tries + 1, kTriesPerTable);
      }
      leave_source();
      leave_target();
      if (!sleep_for(backoff.next(), pool_.halt_token()))
        throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again to go on.");
    }
  }

  // The snapshot is worth more than a clean line: the source connection stays whenever it still answers.
  void leave_source() noexcept {
    try {
      if (source_) TableCopy::release(*source_);
    } catch (...) {
      source_.reset();
    }
  }
  void leave_target() noexcept {
    try {
      if (target_ && target_->in_transaction()) target_->exec("ROLLBACK");
    } catch (...) {
      target_.reset();
    }
  }

  void open_both() {
    if (!source_) source_.emplace(persist([&] { return open_source(); }));
    if (!target_) target_.emplace(persist([&] { return open_target(); }));
    const std::lock_guard lock(mutex_);
    source_canceller_ = source_->canceller();
    target_canceller_ = target_->canceller();
    target_pid_ = target_->backend_pid();
  }

  // Opens with patience for a server that restarts.
  template <typename Open>
  pg::Connection persist(Open open) {
    const auto deadline = Deadline::after(pool_.context().options.reconnect_for);
    Backoff backoff;
    for (;;) {
      try {
        return open();
      } catch (const Error& error) {
        if (error.action() != Action::retry || deadline.passed()) throw;
        log::debug("{}: {}", role_, error.describe());
      }
      if (!sleep_for(backoff.next(), pool_.halt_token()))
        throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again to go on.");
    }
  }

  pg::Connection open_source() try {
    const auto& context = pool_.context();
    return source::open_snapshot_worker(context.options.source, context.snapshot_id, role_);
  } catch (const Error& error) {
    if (pg::is_snapshot_gone(error.sqlstate())) throw SnapshotGone();
    throw;
  }

  pg::Connection open_target() {
    auto connection = pg::Connection::open(pool_.context().options.target, role_);
    if (pool_.context().options.replica_role) connection.exec("SET session_replication_role = replica");
    return connection;
  }

  Pool& pool_;
  const std::string role_;
  std::optional<pg::Connection> source_, target_;
  std::atomic<bool> target_failed_{false}, ended_{false};
  std::atomic<int> target_pid_{0};
  std::mutex mutex_;  // of the cancellers
  pg::Canceller source_canceller_, target_canceller_;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

// Finds COPYs that the target has refused while we still send rows. A help, no more: without it (no connection to
// spare, track_activities off) the error shows at the end of the table.
class RefusalWatch {
 public:
  explicit RefusalWatch(const pg::Endpoint& target) : target_(target) {}

  void look(const Workers& workers) noexcept {
    if (!due_.passed()) return;
    due_ = Deadline::after(kRefusalInterval);
    try {
      if (!connection_) connection_.emplace(pg::Connection::open(target_, "copy-watch"));
      const auto rows = connection_->exec(
          "SELECT pid FROM pg_catalog.pg_stat_activity WHERE state = 'idle in transaction (aborted)'"
          " AND datname = pg_catalog.current_database()");
      for (int i = 0; i < rows.rows(); ++i)
        for (const auto& worker : workers)
          if (rows.text(i, 0) == std::to_string(worker->target_pid())) worker->mark_target_failed();
    } catch (...) {
      connection_.reset();
      due_ = Deadline::after(10 * kRefusalInterval);
    }
  }

 private:
  const pg::Endpoint& target_;
  std::optional<pg::Connection> connection_;
  Deadline due_ = Deadline::after(kRefusalInterval);
};

void watch(Pool& pool, const Workers& workers, const std::stop_token& stop) {
  RefusalWatch refusals(pool.context().options.target);
  Deadline cancel_again = Deadline::after(Milliseconds(0));
  while (!std::ranges::all_of(workers, &Worker::ended)) {
    sleep_for(Milliseconds(20), {});
    if (stop.stop_requested()) pool.halt();
    if (!pool.halted()) {
      refusals.look(workers);
      continue;
    }
    if (!cancel_again.passed()) continue;
    for (const auto& worker : workers)
      if (!worker->ended()) worker->cancel();
    cancel_again = Deadline::after(kCancelInterval);
  }
}

}  // namespace

CopyResult copy_tables(const CopyOptions& options, const state::Replica& replica, std::vector<CopyJob> jobs,
                       const std::string& snapshot_id, Lsn boundary, CopyProgress& progress,
                       const std::function<void(const CopyJob&)>& on_copied, const std::stop_token& stop) {
  if (jobs.empty()) return {};
  const SplitRule rule{options.split_above, options.jobs, options.source_version};
  Pool pool({options, replica, snapshot_id, boundary, progress, on_copied}, std::move(jobs), rule);
  const auto count = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(options.jobs, 1)), 1, pool.size());
  Workers workers;
  for (std::size_t i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(pool, static_cast<int>(i)));
  {
    std::vector<std::jthread> threads;
    for (auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
    watch(pool, workers, stop);
  }
  return pool.result(stop);
}

}  // namespace pgbaton::copy
