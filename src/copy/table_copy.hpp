// Copying one table, or a part of one, on a source connection that is in the snapshot's transaction and a target
// connection that is idle.
#pragma once
#include <pgbaton/pg/connection.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "copy_plan.hpp"
#include "pool.hpp"

namespace pgbaton::copy {

// What one attempt has counted into the shared progress, so that a second attempt does not count the same bytes again.
struct Stored {
  std::int64_t rows = 0, bytes = 0;
};
struct Counted {
  std::int64_t rows = 0, bytes = 0;
  std::optional<Stored> sent;  // what the last attempt had when it sent COMMIT: that may have succeeded unheard
  std::shared_ptr<TableInFlight> shown;
};

class TableCopy {
 public:
  // `target_failed` is set by another thread when the server says that the target's transaction is aborted: libpq would
  // not tell before the last row has been sent.
  TableCopy(Pool& pool, pg::Connection& source, pg::Connection& target, const std::atomic<bool>& target_failed)
      : pool_(pool), source_(source), target_(target), target_failed_(target_failed) {}

  // On copied and part_copied the rows are committed on the target with what the state says of them. Otherwise nothing
  // has changed. On an exception both transactions are as they were left: release() and ROLLBACK are the caller's.
  TableOutcome run(const Work& work, Counted& counted);

  // Gives the locks on the source back and keeps the snapshot.
  static void release(pg::Connection& source);

 private:
  // nullopt when the table can be copied: it is locked then. `dropped` only when no relation has its oid any more;
  // Error(rejected) that names both when it has another name by now, whatever has its own.
  std::optional<TableOutcome> lock_source(const catalog::Table& table);
  static std::optional<TableOutcome> identify(const catalog::Table& table, const pg::Result& answer);
  std::optional<TableOutcome> identify_after_error(const catalog::Table& table);
  // That what was read was this table.
  void require_read(const catalog::Table& table);
  // `rewritten` when the snapshot knows other columns than `table`, which must be described anew then.
  std::optional<TableOutcome> compare_description(const catalog::Table& table);
  std::optional<TableOutcome> compare_source(const catalog::Table& table, const CopyPlan& plan);
  // Empties the target's table and records its parts, unless another worker has done so.
  void begin_parts(TableWork& table, const CopyPlan& plan);
  Stored store_rows(const Work& work, const CopyPlan& plan, Counted& counted);
  Stored insert_rows(const CopyPlan& plan, Counted& counted);
  Stored pipe_rows(const Work& work, const CopyPlan& plan, Counted& counted);
  TableOutcome commit_table(TableWork& table, const Stored& stored);
  TableOutcome commit_part(const Work& work, const Stored& stored);
  // A part that the last attempt has committed without hearing of it.
  TableOutcome settle_part(const Work& work, const Stored& stored);
  // The open transaction's COMMIT, with the table's state when nothing else is left; under the table's mutex.
  TableOutcome finish_part(TableWork& table, const Stored& stored);
  bool is_recorded(const Work& work);
  void record_part(const Work& work, const Stored& stored);
  // The table's state as copied with these rows, in the open transaction.
  state::TableState store_state(const TableWork& table, const Stored& all);
  void execute_fenced(const std::string& statement);

  Pool& pool_;
  pg::Connection& source_;
  pg::Connection& target_;
  const std::atomic<bool>& target_failed_;
};

}  // namespace pgbaton::copy
