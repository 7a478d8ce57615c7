// The life of a window inside an open transaction:
//
//   SAVEPOINT ── batch ──┬─ all counts exact ───────────────────────→ RELEASE
//                        └─ rejected, irregular, or a count differs → ROLLBACK TO ── change by change ──→ RELEASE
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

struct Applier::Impl {
  Impl(pg::Connection c, ApplierOptions o)
      : connection(std::move(c)),
        options(std::move(o)),
        targets(connection),
        session{connection, targets, options.replica, {}},
        rows(session),
        batches(session, rows) {
    set_up_session(connection, options);
  }

  bool write_batch(std::span<const Change> window);
  bool write_plan(const Batch& batch);
  void write_each(std::span<const Change> window);

  pg::Connection connection;
  ApplierOptions options;
  ApplyCounters counters;
  Targets targets;
  RowSession session;
  RowWriter rows;
  BatchWriter batches;
  std::int64_t changes_in_transaction = 0;
  bool open = false;
};

Applier::Applier(pg::Connection connection, ApplierOptions options)
    : impl_(std::make_unique<Impl>(std::move(connection), std::move(options))) {}

Applier::~Applier() = default;

void Applier::begin() {
  impl_->connection.exec("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  impl_->open = true;
  impl_->changes_in_transaction = 0;
}

void Applier::apply(std::span<const Change> window) {
  Impl& i = *impl_;
  if (!i.open) throw Error(ErrorKind::failed, "apply outside of a transaction").action(Action::bug);
  if (window.empty()) return;
  i.connection.exec("SAVEPOINT pgbaton_window");
  i.session.counts = {};
  if (i.options.strategy == Strategy::change_by_change || !i.write_batch(window)) i.write_each(window);
  i.connection.exec("RELEASE SAVEPOINT pgbaton_window");
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
  connection.exec("ROLLBACK TO SAVEPOINT pgbaton_window");
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

void Applier::Impl::write_each(std::span<const Change> window) {
  for (const Change& change : window) rows.write(change);
}

void Applier::commit(Lsn applied_lsn, std::int64_t source_commit_time, std::int64_t source_transactions) {
  Impl& i = *impl_;
  if (!i.open) throw Error(ErrorKind::failed, "commit outside of a transaction").action(Action::bug);
  try {
    store_progress(i.connection, i.options,
                   {applied_lsn, source_commit_time, source_transactions, i.changes_in_transaction});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::held_elsewhere) rollback();
    throw;
  }
  PGBATON_FAILPOINT("apply_before_commit");
  i.open = false;
  const pg::Result result = i.connection.exec("COMMIT");
  // COMMIT of an aborted transaction succeeds, as ROLLBACK.
  if (std::string_view(PQcmdStatus(result.get())) != "COMMIT")
    throw Error(ErrorKind::failed, "the target rolled the transaction back at COMMIT")
        .side(Side::target)
        .lsn(applied_lsn);
  ++i.counters.target_transactions;
  PGBATON_FAILPOINT("apply_after_commit");
}

void Applier::rollback() {
  Impl& i = *impl_;
  if (!i.open) return;
  i.open = false;
  i.targets.forget();
  // A lost connection has taken its transaction along.
  if (PQstatus(i.connection.get()) == CONNECTION_OK) i.connection.exec("ROLLBACK");
}

bool Applier::in_transaction() const {
  return impl_->open;
}

const ApplyCounters& Applier::counters() const {
  return impl_->counters;
}

}  // namespace pgbaton::apply
