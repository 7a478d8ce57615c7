// What follows a table's rows, while other tables are still being copied: indexes and constraints, guard, ANALYZE, and
// the phases copied → indexed → done in pgbaton.table_state.
//
// A partition's guard comes with its root when the whole tree is copied (guard_trees in rounds.cpp); until then the
// partition stays `indexed`.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "build.hpp"

namespace pgbaton::snapshot {

class IndexPool {
 public:
  // Starts the workers. A failing one asks `stop` to end the copy, too; finish() throws its error.
  IndexPool(const CloneOptions& options, const state::Replica& replica, copy::CopyProgress& progress,
            std::stop_source stop);
  ~IndexPool();  // ends the workers after the step in hand
  IndexPool(const IndexPool&) = delete;
  IndexPool& operator=(const IndexPool&) = delete;

  // From any thread. `archive` is the one that describes the table; none with --schema none.
  // `guard_at_root`: a partition of a tree on the target.
  void add(const copy::CopyJob& job, const std::optional<copy::SchemaArchive>& archive, bool guard_at_root);
  // Waits until all that was added is done. Throws the first error.
  void finish();
  // As if a worker had failed: the first error counts. From any thread.
  void fail(std::exception_ptr error) noexcept;
  // Whether a worker has failed; then the copy's own error is only the echo.
  bool failed() const;

 private:
  struct Work {
    copy::CopyJob job;
    std::optional<copy::SchemaArchive> archive;
    bool guard_at_root = false;
  };
  struct Session {
    std::unique_ptr<pg::Control> target;
  };
  void run(int number);
  std::vector<Work> take();
  void process_with_retry(std::vector<Work> group, const std::string& role, Session& session);
  void process(std::vector<Work>& group, pg::Control& target);
  void set_guard(pg::Control& target, copy::CopyJob& job);
  std::shared_ptr<copy::TableInFlight> show(const std::vector<Work>& group);
  void count(const std::vector<Work>& group);

  const CloneOptions& options_;
  const state::Replica replica_;
  copy::CopyProgress& progress_;
  std::stop_source stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  bool closed_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace pgbaton::snapshot
