// Copying tables on one boundary: plan → parts → COPY pipe → committed with its state row.
//
// COPY out of the source is piped to COPY in with no re-parsing. Each table is copied in one target transaction that
// also sets its row in pgbaton.table_state (boundary, rows, phase copied), so "copied" is never true without the rows.
// A table, or a part of a large one (parts.hpp), that failed on a connection error is rolled back and taken again
// alone, on the same snapshot while it lives.
//
// Before a table is read its worker takes ACCESS SHARE and compares relfilenode as the snapshot sees it with
// pg_relation_filenode() now; a difference means that the table was rewritten and looks empty to this snapshot. It is
// then returned in CopyResult::rewritten and needs another boundary.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/copy/progress.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/state/store.hpp>

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::copy {

struct CopyJob {
  catalog::Table table;  // as the source describes it
  state::TableState state;
};

struct CopyOptions {
  pg::Endpoint source, target;
  int jobs = 4;                   // --jobs: connections on each side
  std::uint64_t split_above = 0;  // --split-above; 0: every table in one piece
  int source_version = 0;         // 150004, for what can be split
  std::uint64_t max_rate = 0;     // --max-rate, bytes per second over all workers; 0 none
  bool replica_role = true;       // SET session_replication_role on the target's COPY sessions
  bool replace_rows = false;      // readers see the old rows until the new ones are committed; not for tables in parts
  bool binary = true;             // COPY in binary where every column's type is the same built-in type on both sides
  Milliseconds reconnect_for{60'000};  // how long a lost server is waited for before the run fails
  // Called from worker threads after a part that is not its table's last has been committed.
  std::function<void()> on_part_copied;
  // Called from worker threads before work that failed is tried again; what it throws ends the copy.
  std::function<void()> before_retry;
};

struct CopyResult {
  std::vector<CopyJob> rewritten;   // need a boundary of their own
  std::vector<CopyJob> dropped;     // gone on the source: phase skipped, reported
  std::vector<CopyJob> unfinished;  // the snapshot died; need a new boundary
};

// Copies all jobs, largest first, on `snapshot_id` whose LSN is `boundary`. `on_copied` is called from worker threads
// after a table has been committed as a whole. Throws on the first error that no retry mends, after every worker has
// ended.
CopyResult copy_tables(const CopyOptions& options, const state::Replica& replica, std::vector<CopyJob> jobs,
                       const std::string& snapshot_id, Lsn boundary, CopyProgress& progress,
                       const std::function<void(const CopyJob&)>& on_copied, const std::stop_token& stop);

}  // namespace pgbaton::copy
