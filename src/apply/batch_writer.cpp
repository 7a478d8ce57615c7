#include "batch_writer.hpp"

#include "batch_sql.hpp"
#include "new_rows.hpp"
#include "set_sender.hpp"
#include "tombstone.hpp"

#include <pgbaton/pg/pipeline.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace pgbaton::apply {

namespace {

// Below this an INSERT in the pipeline is cheaper than the round trips of a COPY.
constexpr std::size_t kCopyRows = 100;

bool by_copy(const TableBatch& batch) {
  return batch.inserts.size() >= kCopyRows;
}

// Keys that the step leaves absent.
std::vector<BatchRow> gone_rows(const TableBatch& batch) {
  std::vector<BatchRow> gone = batch.vanished;
  std::copy_if(batch.deletes.begin(), batch.deletes.end(), std::back_inserter(gone),
               [](const BatchRow& row) { return !row.comes_again; });
  return gone;
}

// All keys of the step, before its rows: a newer entry shows in the count, and the rows need no condition.
void enter_keys(SetSender& sender, const TableBatch& batch) {
  std::vector<BatchRow> present = batch.inserts;
  for (const MaskedRows& group : batch.updates) present.insert(present.end(), group.rows.begin(), group.rows.end());
  sender.send(enter_statement(*batch.table, true), batch, gone_rows(batch), false);
  sender.send(enter_statement(*batch.table, false), batch, std::move(present), false);
}

}  // namespace

bool BatchWriter::write(const BatchStep& step) {
  if (!write_sets(step)) return false;
  for (const TableBatch& batch : step.tables) {
    if (by_copy(batch) && !copy_in(*batch.table, batch.inserts)) return false;
    if (!write_ordered(batch)) return false;
  }
  if (step.single != nullptr) rows_.write(*step.single);
  return true;
}

bool BatchWriter::write_sets(const BatchStep& step) {
  const auto buries = [this](const TableBatch& b) {
    return b.table->guard != GuardMode::ledger && leaves_tombstones(session_, *b.table);
  };
  const auto has_sets = [&](const TableBatch& b) {
    const bool entered = b.table->guard == GuardMode::ledger;
    return !b.deletes.empty() || !b.updates.empty() || (!b.inserts.empty() && (entered || !by_copy(b))) ||
           (!b.vanished.empty() && (entered || buries(b)));
  };
  // Looked up here, because nothing else may be asked once the pipeline is open.
  std::vector<std::string_view> scopes;
  for (const TableBatch& batch : step.tables) scopes.push_back(session_.targets.scope(*batch.table));
  if (std::none_of(step.tables.begin(), step.tables.end(), has_sets)) return true;

  pg::Pipeline pipeline(session_.connection);
  SetSender sender(pipeline, session_.counts);
  for (std::size_t i = 0; i < step.tables.size(); ++i) {
    const TableBatch& batch = step.tables[i];
    if (!has_sets(batch)) continue;
    if (batch.table->guard == GuardMode::ledger) enter_keys(sender, batch);
    if (buries(batch)) sender.bury(session_.replica, *batch.table, gone_rows(batch));
    if (!batch.deletes.empty()) sender.send(delete_statement(*batch.table, scopes[i]), batch, batch.deletes);
    for (const MaskedRows& group : batch.updates)
      sender.send(update_statement(*batch.table, scopes[i], group.columns), batch, group.rows);
    if (!by_copy(batch)) sender.send(insert_statement(*batch.table), batch, batch.inserts);
  }
  pipeline.run();
  return sender.all_exact();
}

bool BatchWriter::copy_in(const TargetTable& table, std::vector<BatchRow> rows) {
  sort_by_key(table, rows);
  const long long stored = copy_rows(session_.connection, table, rows);
  session_.counts.rows_written += stored;
  return stored == static_cast<long long>(rows.size());
}

bool BatchWriter::write_ordered(const TableBatch& batch) {
  for (const OrderedRun& run : batch.ordered) {
    if (run.change != nullptr)
      rows_.write(*run.change);
    else if (!copy_in(*batch.table, run.inserts))
      return false;
  }
  return true;
}

}  // namespace pgbaton::apply
