// Copying one table on a source connection that is in the snapshot's transaction and a target connection that is idle.
#pragma once
#include <pgbaton/pg/connection.hpp>

#include <atomic>
#include <functional>
#include <memory>

#include "copy_plan.hpp"
#include "pool.hpp"

namespace pgbaton::copy {

// What one attempt has counted into the shared progress, so that a second attempt does not count the same bytes again.
struct Counted {
  std::int64_t rows = 0, bytes = 0;
  std::shared_ptr<TableInFlight> shown;
};

class TableCopy {
 public:
  // `target_failed` is set by another thread when the server says that the target's transaction is aborted: libpq would
  // not tell before the last row has been sent.
  TableCopy(Pool& pool, pg::Connection& source, pg::Connection& target, const std::atomic<bool>& target_failed)
      : pool_(pool), source_(source), target_(target), target_failed_(target_failed) {}

  // On copied the rows and the table's state are committed on the target, and `job.state` says so. Otherwise nothing
  // has changed. On an exception both transactions are as they were left: release() and ROLLBACK are the caller's.
  TableOutcome run(CopyJob& job, Counted& counted);

  // Gives the locks on the source back and keeps the snapshot.
  static void release(pg::Connection& source);

 private:
  // nullopt when the table can be copied: it is locked then.
  std::optional<TableOutcome> lock_source(const catalog::Table& table);
  // `rewritten` when the snapshot knows other columns than `table`, which must be described anew then.
  std::optional<TableOutcome> compare_description(const catalog::Table& table);
  std::optional<TableOutcome> compare_source(const catalog::Table& table, const CopyPlan& plan);
  void store_rows(CopyJob& job, const CopyPlan& plan, Counted& counted);
  void insert_rows(CopyJob& job, const CopyPlan& plan, Counted& counted);
  void pipe_rows(CopyJob& job, const CopyPlan& plan, Counted& counted);
  void commit(CopyJob& job);

  Pool& pool_;
  pg::Connection& source_;
  pg::Connection& target_;
  const std::atomic<bool>& target_failed_;
};

}  // namespace pgbaton::copy
