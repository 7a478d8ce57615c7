// The life of a window inside an open transaction:
//
//   mark ── batch ──┬─ all counts exact ────────────────────────→ keep
//                   └─ rejected, irregular, or a count differs → undo ── change by change ──→ keep
//
// mark, undo and keep are a savepoint, or for the first window the transaction itself.
//
// The second way is slow and exact: it applies in the source's order what the batch could not (unique values rotating
// through rows, keys equal only for the target), or it fails and names the change that the target refuses. Errors that
// are no rejection (lock waits, lost connections) leave at once; the caller rolls back and tries again.
#include "apply_session.hpp"
#include "batch.hpp"
#include "batch_writer.hpp"
#include "progress.hpp"
#include "reject.hpp"
#include "row_session.hpp"
#include "row_writer.hpp"

#include <pgbaton/apply/applier.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>

#include <string_view>
#include <utility>

namespace pgbaton::apply {

namespace {
constexpr const char* kBegin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
// Without replica role constraints are enforced. The source may have deferred what is only deferrable, and a batch
// writes in another order: what the source's transaction satisfied at its end counts.
constexpr const char* kDeferConstraints = "; SET CONSTRAINTS ALL DEFERRED";
}  // namespace

struct Applier::Impl {
  Impl(pg::Connection c, ApplierOptions o)
      : connection(std::move(c)),
        options(std::move(o)),
        begin(options.replica_role ? kBegin : std::string(kBegin) + kDeferConstraints),
        tombstones(options.tombstones ? options.tombstones : std::make_shared<TombstoneRule>()),
        targets(connection),
        session{connection, targets, options.replica, *tombstones, {}, {}, options.row_source, options.repair_missing},
        rows(session),
        batches(session, rows) {
    set_up_session(connection, options);
  }

  bool write_batch(std::span<const Change> window);
  bool write_plan(const Batch& batch);
  void mark();
  void undo();
  void keep();
  pg::Result end(Lsn applied_lsn);

  pg::Connection connection;
  ApplierOptions options;
  const std::string begin;
  std::shared_ptr<const TombstoneRule> tombstones;
  ApplyCounters counters;
  Targets targets;
  RowSession session;
  RowWriter rows;
  BatchWriter batches;
  std::int64_t changes_in_transaction = 0;
  std::int64_t windows = 0;  // written in this transaction
  bool open = false;
};

Applier::Applier(pg::Connection connection, ApplierOptions options)
    : impl_(std::make_unique<Impl>(std::move(connection), std::move(options))) {}

Applier::~Applier() = default;

void Applier::begin() {
  impl_->connection.exec(impl_->begin);
  impl_->open = true;
  impl_->changes_in_transaction = 0;
  impl_->windows = 0;
}

void Applier::apply(std::span<const Change> window) {
  Impl& i = *impl_;
  if (!i.open) throw Error(ErrorKind::failed, "apply outside of a transaction").action(Action::bug);
  if (window.empty()) return;
  i.mark();
  i.session.counts = {};
  i.session.expired_lsn.reset();
  if (i.options.strategy == Strategy::change_by_change || !i.write_batch(window)) i.rows.write_all(window);
  i.keep();
  const auto changes = static_cast<std::int64_t>(window.size());
  i.changes_in_transaction += changes;
  i.counters.changes += changes;
  i.counters.rows_written += i.session.counts.rows_written;
  i.counters.stale += i.session.counts.stale;
  PGBATON_FAILPOINT("apply_window_written");
}

// False: nothing of the window is written, and it must be replayed.
bool Applier::Impl::write_batch(std::span<const Change> window) {
  const Batch batch = Batch::plan(window);
  if (!batch.irregular() && write_plan(batch)) return true;
  undo();
  session.counts = {};
  targets.forget();
  ++counters.fallbacks;
  return false;
}

bool Applier::Impl::write_plan(const Batch& batch) {
  try {
    for (const BatchStep& step : batch.steps())
      if (!batches.write(step)) return false;
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::rejected && !is_rejection(error.sqlstate())) throw;
    log::debug("batch refused, applying change by change: {}", error.describe());
    return false;
  }
}

// The first window of a transaction needs no savepoint: the transaction itself can start anew. Most transactions have
// one window, and save two round trips.
void Applier::Impl::mark() {
  if (windows > 0) connection.exec("SAVEPOINT pgbaton_window");
}

void Applier::Impl::undo() {
  if (windows > 0) {
    connection.exec("ROLLBACK TO SAVEPOINT pgbaton_window");
    return;
  }
  connection.exec("ROLLBACK");
  connection.exec(begin);
}

void Applier::Impl::keep() {
  if (windows++ > 0) connection.exec("RELEASE SAVEPOINT pgbaton_window");
}

// A deferred constraint speaks here for the first time, and cannot say which change it means.
pg::Result Applier::Impl::end(Lsn applied_lsn) try { return connection.exec("COMMIT"); } catch (const Error& error) {
  if (!is_rejection(error.sqlstate())) throw;
  targets.forget();
  throw Error(ErrorKind::rejected, error.message())
      .side(Side::target)
      .sqlstate(error.sqlstate())
      .table(error.table())
      .lsn(applied_lsn)
      .hint(
          "A deferred constraint of the target refuses the source's transactions up to this position: correct the rows "
          "on the target, or drop the constraint if the source does not have it, then run the same command again.");
}

void Applier::commit(Lsn applied_lsn, std::int64_t source_commit_time, std::int64_t source_transactions) {
  Impl& i = *impl_;
  if (!i.open) throw Error(ErrorKind::failed, "commit outside of a transaction").action(Action::bug);
  try {
    store_progress(i.connection, i.options,
                   {applied_lsn, source_commit_time, source_transactions, i.changes_in_transaction});
  } catch (...) {
    // An UPDATE that waited for the row has locked it even when it then finds that it must not take it.
    abandon();
    throw;
  }
  PGBATON_FAILPOINT("apply_before_commit");
  i.open = false;
  const pg::Result result = i.end(applied_lsn);
  // COMMIT of an aborted transaction succeeds, as ROLLBACK.
  if (std::string_view(PQcmdStatus(result.get())) != "COMMIT")
    throw Error(ErrorKind::failed, "the target rolled the transaction back at COMMIT")
        .side(Side::target)
        .lsn(applied_lsn);
  ++i.counters.target_transactions;
  i.counters.missing_rows = i.session.missing_rows;
  if (i.options.row_source != nullptr) i.options.row_source->release();
  PGBATON_FAILPOINT("apply_after_commit");
}

void Applier::rollback() {
  Impl& i = *impl_;
  if (!i.open) return;
  i.open = false;
  i.targets.forget();
  if (i.options.row_source != nullptr) i.options.row_source->release();
  // A lost connection has taken its transaction along.
  if (PQstatus(i.connection.get()) == CONNECTION_OK) i.connection.exec("ROLLBACK");
}

void Applier::abandon() noexcept {
  if (PQtransactionStatus(impl_->connection.get()) == PQTRANS_ACTIVE) return;  // ends with its connection
  try {
    rollback();
  } catch (const std::exception& error) {
    log::debug("rolling back: {}", error.what());
  }
}

bool Applier::in_transaction() const {
  return impl_->open;
}

const ApplyCounters& Applier::counters() const {
  return impl_->counters;
}

}  // namespace pgbaton::apply
