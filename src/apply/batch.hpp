// The batch: what remains of a window of changes when each key keeps only its outcome. Pure: no connection, no clock.
//
// For one key an in-order window starts with the key present or not, and ends so; that gives four outcomes, and each is
// one exact write whose row count is known beforehand:
//
//   before    after     first and last change            write
//   absent    present   insert … (update)                insert
//   present   present   update, or delete … insert       update of the columns that are known (all, or a mask)
//   present   absent    (update …) delete                delete
//   absent    absent    insert … delete                  nothing
//
// Whether the key was there before follows from its first change: an insert (or a key change that arrives at it) finds
// it absent, anything else present. A sequence that no source can produce (insert of a present key, update of an absent
// one) makes the plan irregular; it is then replayed change by change, which names the culprit.
//
// Masks: an unchanged TOAST value is not known and never written. A partial update after a known row is merged into it;
// after another partial update the masks unite, newer values winning; alone it stays partial.
// A changed key is the end of the old key and the arrival of the new one. If values are unchanged and the old key's row
// in this window does not supply them, the new row cannot be built here: the change becomes a step of its own, between
// what precedes and what follows it. TRUNCATE is such a step as well, and so is a change of a table's own shape (no
// change, just a new step).
//
// Example: commit LSNs 10: insert k1; 20: update k1 → k2; 30: update k2 (b unchanged); 40: delete k9, insert k9.
//   inserts: k2 (merged, guard 30);  updates: k9 (all columns, guard 40);  k1: nothing.
#pragma once
#include <pgbaton/apply/change.hpp>
#include <pgbaton/base/arena.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace pgbaton::apply {

struct BatchRow {
  wire::Tuple values;        // as wide as the table's columns
  Lsn commit_lsn;            // of the last change that took part: the guard to store
  bool comes_again = false;  // a delete whose key is among the inserts as well
};

struct MaskedRows {
  std::vector<std::size_t> columns;  // to be set: known, not of the key
  std::vector<BatchRow> rows;
};

// Changes that keep their order: keyless tables and tables whose delivery is any_order. Inserts of a keyless table that
// follow each other form one run.
struct OrderedRun {
  std::vector<BatchRow> inserts;
  const Change* change = nullptr;  // or one change, by the row strategy
};

struct TableBatch {
  const TargetTable* table = nullptr;
  Lsn first_commit_lsn;           // the smallest in this step
  std::vector<BatchRow> deletes;  // key columns hold values
  std::vector<MaskedRows> updates;
  std::vector<BatchRow> inserts;
  std::vector<BatchRow> vanished;  // came and went in this step: nothing is written but a tombstone, where one is due
  std::vector<OrderedRun> ordered;
};

struct BatchStep {
  std::vector<TableBatch> tables;  // independent of each other
  const Change* single = nullptr;  // after the tables: this one alone
};

class Batch {
 public:
  // Views into the window's memory; the window outlives the batch.
  static Batch plan(std::span<const Change> window);

  bool irregular() const { return irregular_; }
  const std::vector<BatchStep>& steps() const { return steps_; }

 private:
  friend class Coalescer;
  std::vector<BatchStep> steps_;
  Arena arena_;  // merged rows
  bool irregular_ = false;
};

// Puts rows in the order of the key (integers by value, everything else by bytes): neighbours on the target's pages.
void sort_by_key(const TargetTable& table, std::vector<BatchRow>& rows);

}  // namespace pgbaton::apply
