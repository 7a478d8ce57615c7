// Writes changes into the target and keeps progress with them (G2, G3, G5).
//
// One Applier, one connection, one thread. Life of a target transaction:
//
//   begin();  apply(window); apply(window) …  commit(applied_lsn, …)      or rollback()
//
// apply() writes one window of changes, in order, atomically within the open transaction: under a savepoint by the
// batch strategy (coalesced per key, a few set-based statements per table, every count checked); when that meets a data
// error or a wrong count, back to the savepoint and change by change in the source's order. What fails there is real:
// Error(rejected) with table, key and LSN. A window may end anywhere in a source transaction; commit() comes only after
// whole ones (G4, the caller's duty).
#pragma once
#include <pgbaton/apply/change.hpp>
#include <pgbaton/apply/row_source.hpp>
#include <pgbaton/apply/tombstones.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/pg/connection.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pgbaton::apply {

// SQLSTATE "no data" of the Error(rejected) that an update or delete without its row ends with.
inline constexpr std::string_view kMissingRow = "02000";

enum class Strategy { batch, change_by_change };

// SQLSTATE of the Error(failed, retry) of a commit() that came after the table states were changed.
inline constexpr std::string_view kTablesChanged = "PB001";

struct ApplierOptions {
  std::string replica, generation;  // progress row; applier 0 of 1
  int applier_number = 0, applier_count = 1;
  std::int64_t epoch = 0;
  std::int64_t tables_version = 0;  // as read before the table states; a newer one in force: kTablesChanged
  Strategy strategy = Strategy::batch;
  bool replica_role = true;                         // SET session_replication_role = replica; refused: Error(preflight)
  std::shared_ptr<const TombstoneRule> tombstones;  // none: as the rule of the default constructor
  RowSource* row_source = nullptr;                  // for rows that a change does not bring whole; outlives the applier
  bool repair_missing = false;                      // with a row_source; otherwise a missing row is Error(rejected)
  std::string lock_timeout = "30s";                 // S37: a blocked apply says so instead of waiting for ever
};

struct ApplyCounters {
  std::int64_t changes = 0;       // as received
  std::int64_t rows_written = 0;  // after coalescing
  std::int64_t stale = 0;         // skipped because the guard was newer
  std::int64_t missing_rows = 0;  // updates and deletes that met no row; only with a row_source
  std::int64_t fallbacks = 0;     // windows replayed change by change
  std::int64_t target_transactions = 0;
};

class Applier {
 public:
  Applier(pg::Connection connection, ApplierOptions options);
  ~Applier();
  Applier(const Applier&) = delete;

  void begin();
  void apply(std::span<const Change> window);
  // Writes the progress row and commits. Throws Error(held_elsewhere) when fenced. After an Error(failed, retry) here
  // the outcome of COMMIT is unknown: the progress row decides, after a new connection. Whatever it throws, the
  // transaction has ended and no lock of it is left. source_commit_time: microseconds since 2000-01-01 of the last
  // transaction, 0 for a pure position.
  void commit(Lsn applied_lsn, std::int64_t source_commit_time, std::int64_t source_transactions);
  void rollback();
  // For one that goes on with nothing: rolls back what can be rolled back and says nothing if it cannot.
  void abandon() noexcept;
  bool in_transaction() const;
  const ApplyCounters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgbaton::apply
