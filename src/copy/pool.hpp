// What the workers of one copy_tables() share: the queue of tables and parts, and what became of them.
#pragma once
#include <pgbaton/base/rate_limit.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/copy/parts.hpp>
#include <pgbaton/pg/connection.hpp>

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

namespace pgbaton::copy {

// copied: with this, the table is complete. part_copied: others of its parts are still to come.
enum class TableOutcome { copied, part_copied, rewritten, dropped };

struct PoolContext {
  const CopyOptions& options;
  const state::Replica& replica;
  const std::string& snapshot_id;
  Lsn boundary;
  CopyProgress& progress;
  const std::function<void(const CopyJob&)>& on_copied;
};

// A table in work. With more than one range its parts are in different hands at the same time.
struct TableWork {
  CopyJob job;  // `table` is constant; `state` changes under the mutex when there are parts
  std::vector<BlockRange> ranges;
  std::int64_t bytes_total = 0;      // the state's as it was at first: constant, for any thread
  std::mutex mutex;                  // of the parts: held while the target's table is emptied, and while a part commits
  bool begun = false;                // the table is empty and its parts are recorded
  std::size_t left = 1;              // ranges that are not committed
  std::int64_t rows = 0, bytes = 0;  // of the committed ones
  std::atomic<bool> ended{false};    // copied, or of no use on this snapshot any more
  std::atomic<std::int64_t> size_done{0};
};

struct Work {
  std::shared_ptr<TableWork> table;
  std::size_t part = 0;
  bool is_part() const { return table->ranges.size() > 1; }
  std::string name() const;
  // Its share of the table's size on the source, and of the estimate that is shown.
  std::int64_t bytes() const;
  std::int64_t bytes_total() const;
};

class Pool {
 public:
  Pool(const PoolContext& shared, std::vector<CopyJob> jobs, const SplitRule& rule);

  const PoolContext& context() const { return context_; }
  RateLimit& rate() { return rate_; }
  std::size_t size() const { return queue_.size(); }  // before the workers begin

  // The largest table or part left; nullopt when there is none or all are to end.
  std::optional<Work> take();
  void put_back(Work work);  // for a worker that still holds the snapshot
  void done(const Work& work, TableOutcome outcome);
  // The first error wins and makes everybody end.
  void fail(const std::exception_ptr& error) noexcept;
  void halt() noexcept { halt_.request_stop(); }
  bool halted() const { return halt_.stop_requested(); }
  std::stop_token halt_token() const { return halt_.get_token(); }

  // After the workers have ended: throws the first error; tables that lack a part are unfinished.
  CopyResult result(const std::stop_token& stop);

 private:
  // Its parts that wait in the queue are of no use any more.
  void give_up(const std::shared_ptr<TableWork>& table, std::vector<CopyJob>& list);

  const PoolContext context_;
  RateLimit rate_;
  std::stop_source halt_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<TableWork>> tables_;
  std::deque<Work> queue_;
  CopyResult result_;
  std::exception_ptr error_;
};

}  // namespace pgbaton::copy
