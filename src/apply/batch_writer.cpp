#include "batch_writer.hpp"

#include "batch_sql.hpp"
#include "guard.hpp"
#include "text_format.hpp"
#include "tombstone.hpp"

#include <pgbaton/pg/copy.hpp>
#include <pgbaton/pg/pipeline.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace pgbaton::apply {

namespace {

// PostgreSQL 15 becomes up to twice as slow per row when the parameters of one statement exceed 128 to 256 kB.
constexpr std::size_t kStatementRows = 1000;
constexpr std::size_t kStatementBytes = 256 * 1024;
// Below this an INSERT in the pipeline is cheaper than the round trips of a COPY.
constexpr std::size_t kCopyRows = 100;
constexpr std::size_t kCopyChunkBytes = 64 * 1024;

bool by_copy(const TableBatch& batch) {
  return batch.inserts.size() >= kCopyRows;
}

// Cuts rows into statements and sends them; what they touched is compared with what was due.
class SetSender {
 public:
  SetSender(pg::Pipeline& pipeline, WriteCounts& counts) : pipeline_(pipeline), counts_(counts) {}

  // `counted`: what it touches are rows of the table, not entries about them.
  void send(const BatchStatement& statement, const TableBatch& batch, std::vector<BatchRow> rows, bool counted = true) {
    if (rows.empty() || statement.sql.empty()) return;
    counted_ = counted;
    sort_by_key(*batch.table, rows);
    arrays_.resize(statement.columns.size() + (statement.guard == GuardParameter::array ? 1 : 0));
    clear();
    for (const BatchRow& row : rows) {
      add(statement, *batch.table, row);
      if (rows_ == kStatementRows || bytes() >= kStatementBytes) flush(statement, batch);
    }
    if (rows_ > 0) flush(statement, batch);
  }
  // Tombstones of rows that are gone. How many are new says nothing.
  void bury(std::string_view replica, const TargetTable& table, const std::vector<BatchRow>& rows) {
    ArrayLiteral keys, lsns;
    const auto flush = [&] {
      const std::vector<pg::Parameter> parameters{replica, table.name.schema, table.name.name, keys.finish(),
                                                  lsns.finish()};
      pipeline_.send(bury_many_statement(), parameters, [](const pg::Result&) {});
      keys.clear();
      lsns.clear();
    };
    std::size_t count = 0;
    for (const BatchRow& row : rows) {
      keys.add(tombstone_key(table, row.values), false);
      lsns.add(to_string(row.commit_lsn), true);
      if (++count % kStatementRows == 0 || keys.bytes() >= kStatementBytes) flush();
    }
    if (keys.bytes() > 1) flush();
  }
  bool all_exact() const { return exact_; }

 private:
  void add(const BatchStatement& statement, const TargetTable& table, const BatchRow& row) {
    std::size_t at = 0;
    for (std::size_t i : statement.columns) arrays_[at++].add(row.values[i], table.columns[i].type_is_integer);
    if (statement.guard == GuardParameter::array) arrays_[at].add(to_string(row.commit_lsn), true);
    ++rows_;
  }

  void flush(const BatchStatement& statement, const TableBatch& batch) {
    std::vector<pg::Parameter> parameters;
    for (ArrayLiteral& array : arrays_) parameters.emplace_back(array.finish());
    const std::string first_commit_lsn = to_string(batch.first_commit_lsn);
    if (statement.guard == GuardParameter::one) parameters.emplace_back(first_commit_lsn);
    pipeline_.send(statement.sql, parameters,
                   [this, due = static_cast<long long>(rows_), counted = counted_](const pg::Result& result) {
                     const long long touched = result.affected();
                     if (counted) counts_.rows_written += touched;
                     exact_ = exact_ && touched == due;
                   });
    clear();
  }

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const ArrayLiteral& array : arrays_) sum += array.bytes();
    return sum;
  }
  void clear() {
    rows_ = 0;
    for (ArrayLiteral& array : arrays_) array.clear();
  }

  pg::Pipeline& pipeline_;
  WriteCounts& counts_;
  std::vector<ArrayLiteral> arrays_;
  std::size_t rows_ = 0;
  bool exact_ = true, counted_ = true;
};

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
  const bool guarded = guard::is_stored(table.guard);
  pg::CopyIn copy(session_.connection, copy_statement(table));
  std::string chunk;
  for (const BatchRow& row : rows) {
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      if (i > 0) chunk += '\t';
      append_copy_field(chunk, row.values[i]);
    }
    if (guarded) chunk += '\t' + to_string(row.commit_lsn);
    chunk += '\n';
    if (chunk.size() < kCopyChunkBytes) continue;
    copy.write(chunk);
    chunk.clear();
  }
  copy.write(chunk);
  const long long stored = copy.finish();
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
