#include "../../../src/apply/batch.hpp"

#include "change_builder.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace pgbaton::apply {
namespace {

using testing::Cell;
using testing::Cells;
using testing::ChangeLog;
using testing::kNull;
using testing::kUnchanged;
using testing::make_table;

std::string cell_text(const wire::Value& value) {
  return value.kind == wire::ValueKind::null ? "NULL" : std::string(value.data);
}

// A table (id, a, b): b is the column that may be unchanged.
TargetTable plain_table() {
  return make_table("t", {{"id", "integer", true}, {"a", "text"}, {"b", "text"}});
}

struct ModelRow {
  std::string a, b;
  Lsn guard;
  bool operator==(const ModelRow&) const = default;
};
using Model = std::map<std::string, ModelRow>;

// Applies a plan as a server would, and objects to every count that is not exact.
class ModelTarget {
 public:
  explicit ModelTarget(Model rows) : rows_(std::move(rows)) {}

  void apply(const Batch& batch) {
    ASSERT_FALSE(batch.irregular());
    for (const BatchStep& step : batch.steps()) {
      for (const TableBatch& table : step.tables) apply_sets(table);
      if (step.single != nullptr) apply_single(*step.single);
    }
  }
  const Model& rows() const { return rows_; }

 private:
  void apply_sets(const TableBatch& table) {
    for (const BatchRow& row : table.deletes) EXPECT_EQ(rows_.erase(cell_text(row.values[0])), 1u);
    for (const MaskedRows& group : table.updates)
      for (const BatchRow& row : group.rows) {
        auto found = rows_.find(cell_text(row.values[0]));
        ASSERT_NE(found, rows_.end());
        for (std::size_t i : group.columns) (i == 1 ? found->second.a : found->second.b) = cell_text(row.values[i]);
        found->second.guard = row.commit_lsn;
      }
    for (const BatchRow& row : table.inserts) {
      for (const wire::Value& value : row.values) EXPECT_NE(value.kind, wire::ValueKind::unchanged);
      const bool fresh = rows_
                             .emplace(cell_text(row.values[0]),
                                      ModelRow{cell_text(row.values[1]), cell_text(row.values[2]), row.commit_lsn})
                             .second;
      EXPECT_TRUE(fresh);
    }
  }

  // Only a key change with an unchanged value may be left to stand alone.
  void apply_single(const Change& change) {
    ASSERT_EQ(change.operation, Operation::update);
    ASSERT_TRUE(change.key_changed());
    ASSERT_EQ(change.new_row[2].kind, wire::ValueKind::unchanged);
    auto moved = rows_.extract(cell_text(change.old_row[0]));
    ASSERT_FALSE(moved.empty());
    moved.key() = cell_text(change.new_row[0]);
    moved.mapped().a = cell_text(change.new_row[1]);
    moved.mapped().guard = change.commit_lsn;
    ASSERT_TRUE(rows_.insert(std::move(moved)).inserted);
  }

  Model rows_;
};

// Every legal sequence of changes on two keys, up to a length, from every start: depth first, checked at each node.
class Sequences {
 public:
  explicit Sequences(std::size_t max_length) : max_length_(max_length) {}

  void walk(const Model& start) {
    start_ = start;
    ops_.clear();
    extend(start);
  }
  long checked() const { return checked_; }

 private:
  struct Op {
    Operation operation;
    std::string key, new_key;
    bool partial;
  };

  void extend(const Model& state) {
    check(state);
    if (ops_.size() == max_length_) return;
    for (const char* key : {"1", "2"}) {
      if (!state.contains(key)) {
        step(state, {Operation::insert, key, key, false});
        continue;
      }
      step(state, {Operation::remove, key, key, false});
      for (bool partial : {false, true}) {
        step(state, {Operation::update, key, key, partial});
        const std::string other = key == std::string("1") ? "2" : "1";
        if (!state.contains(other)) step(state, {Operation::update, key, other, partial});
      }
    }
  }

  // Values name the position of the change that wrote them.
  void step(Model state, const Op& op) {
    const std::string value = "v" + std::to_string(ops_.size());
    const Lsn lsn{100 + ops_.size()};
    if (op.operation == Operation::insert) state[op.key] = {value, value, lsn};
    if (op.operation == Operation::remove) state.erase(op.key);
    if (op.operation == Operation::update) {
      ModelRow row = state.at(op.key);
      state.erase(op.key);
      state[op.new_key] = {value, op.partial ? row.b : value, lsn};
    }
    ops_.push_back(op);
    extend(state);
    ops_.pop_back();
  }

  void record(ChangeLog& log, std::size_t first, std::size_t end) const {
    for (std::size_t i = first; i < end; ++i) {
      const Op& op = ops_[i];
      const Cell value("v" + std::to_string(i));
      const unsigned lsn = 100 + static_cast<unsigned>(i);
      const Cells old_row{op.key, kNull, kNull};
      const Cells new_row{op.new_key, value, op.partial ? kUnchanged : value};
      if (op.operation == Operation::insert) log.insert(table_, lsn, new_row);
      if (op.operation == Operation::remove) log.remove(table_, lsn, old_row);
      if (op.operation == Operation::update) log.update(table_, lsn, new_row, op.key == op.new_key ? Cells{} : old_row);
    }
  }

  // In one window; the shorter sequences also cut into two windows in the middle.
  void check(const Model& expected) {
    check_cut(expected, 0);
    if (ops_.size() > 1 && ops_.size() < max_length_) check_cut(expected, ops_.size() / 2);
  }

  void check_cut(const Model& expected, std::size_t cut) {
    ModelTarget target(start_);
    for (const auto& [first, end] : {std::pair(std::size_t{0}, cut), std::pair(cut, ops_.size())}) {
      if (first == end) continue;
      ChangeLog log;
      record(log, first, end);
      target.apply(Batch::plan(log.all()));
    }
    ASSERT_EQ(target.rows(), expected) << describe();
    ++checked_;
  }

  std::string describe() const {
    std::string text;
    for (const Op& op : ops_)
      text +=
          std::to_string(static_cast<int>(op.operation)) + " " + op.key + ">" + op.new_key + (op.partial ? "p " : " ");
    return text;
  }

  std::size_t max_length_;
  TargetTable table_ = plain_table();
  Model start_;
  std::vector<Op> ops_;
  long checked_ = 0;
};

TEST(Batch, EveryLegalSequenceEndsAsOnTheSource) {
  Sequences sequences(5);
  const ModelRow old_row{"old", "old", Lsn{1}};
  for (const Model& start : {Model{}, Model{{"1", old_row}}, Model{{"1", old_row}, {"2", old_row}}}) {
    sequences.walk(start);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(sequences.checked(), 20'000);
}

TEST(Batch, EachOutcomeIsOneWrite) {
  const TargetTable t = plain_table();
  ChangeLog log;
  log.insert(t, 10, {1, "a", "b"});
  log.update(t, 20, {2, "a", "b"}, {1, kNull, kNull});
  log.update(t, 30, {2, "c", kUnchanged});
  log.remove(t, 40, {9, kNull, kNull});
  log.insert(t, 40, {9, "x", "y"});
  log.update(t, 50, {7, "p", kUnchanged});
  log.remove(t, 60, {8, kNull, kNull});
  const Batch batch = Batch::plan(log.all());
  ASSERT_FALSE(batch.irregular());
  ASSERT_EQ(batch.steps().size(), 1u);
  const TableBatch& table = batch.steps()[0].tables.at(0);
  EXPECT_EQ(table.first_commit_lsn, Lsn{10});
  ASSERT_EQ(table.inserts.size(), 1u);
  EXPECT_EQ(cell_text(table.inserts[0].values[0]), "2");
  EXPECT_EQ(cell_text(table.inserts[0].values[1]), "c");
  EXPECT_EQ(cell_text(table.inserts[0].values[2]), "b");
  EXPECT_EQ(table.inserts[0].commit_lsn, Lsn{30});
  ASSERT_EQ(table.updates.size(), 2u);
  EXPECT_EQ(table.updates[0].columns, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(table.updates[1].columns, (std::vector<std::size_t>{1}));
  ASSERT_EQ(table.deletes.size(), 1u);
  EXPECT_EQ(cell_text(table.deletes[0].values[0]), "8");
}

TEST(Batch, MasksUniteAndTheNewerValueWins) {
  const TargetTable t = make_table("t", {{"id", "integer", true}, {"a", "text"}, {"b", "text"}, {"c", "text"}});
  ChangeLog log;
  log.update(t, 10, {1, "a1", kUnchanged, kUnchanged});
  log.update(t, 20, {1, kUnchanged, kNull, kUnchanged});
  log.update(t, 30, {1, "a3", kUnchanged, kUnchanged});
  const Batch batch = Batch::plan(log.all());
  const auto& updates = batch.steps().at(0).tables.at(0).updates;
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].columns, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(cell_text(updates[0].rows.at(0).values[1]), "a3");
  EXPECT_EQ(cell_text(updates[0].rows.at(0).values[2]), "NULL");
  EXPECT_EQ(updates[0].rows.at(0).commit_lsn, Lsn{30});
}

TEST(Batch, AnUnknownValueThatMovesStandsAlone) {
  const TargetTable t = plain_table();
  ChangeLog log;
  log.update(t, 10, {5, "v", "w"});
  log.update(t, 20, {2, "x", kUnchanged}, {1, kNull, kNull});
  log.update(t, 30, {2, "y", kUnchanged});
  const Batch batch = Batch::plan(log.all());
  ASSERT_EQ(batch.steps().size(), 2u);
  EXPECT_EQ(batch.steps()[0].single, &log.all()[1]);
  EXPECT_EQ(batch.steps()[0].tables.at(0).updates.size(), 1u);
  EXPECT_EQ(batch.steps()[1].single, nullptr);
  EXPECT_EQ(batch.steps()[1].tables.at(0).first_commit_lsn, Lsn{30});
}

TEST(Batch, AnOldKeyThatDidNotChangeIsAPlainUpdate) {
  const TargetTable t = plain_table();
  ChangeLog log;
  log.update(t, 10, {1, "x", kUnchanged}, {1, kNull, kNull});
  const Batch batch = Batch::plan(log.all());
  ASSERT_EQ(batch.steps().size(), 1u);
  EXPECT_EQ(batch.steps()[0].single, nullptr);
  EXPECT_EQ(batch.steps()[0].tables.at(0).updates.size(), 1u);
}

TEST(Batch, TruncateIsAStepAndForgetsWhatWasBefore) {
  const TargetTable t = plain_table();
  ChangeLog log;
  log.insert(t, 10, {1, "a", "b"});
  log.truncate(10, {&t});
  log.insert(t, 10, {1, "c", "d"});
  const Batch batch = Batch::plan(log.all());
  ASSERT_FALSE(batch.irregular());
  ASSERT_EQ(batch.steps().size(), 2u);
  EXPECT_EQ(batch.steps()[0].single->operation, Operation::truncate);
  EXPECT_EQ(batch.steps()[1].tables.at(0).inserts.size(), 1u);
}

TEST(Batch, WhatNoSourceProducesIsIrregular) {
  const TargetTable t = plain_table();
  const auto irregular = [&](auto&& build) {
    ChangeLog log;
    build(log);
    return Batch::plan(log.all()).irregular();
  };
  EXPECT_TRUE(irregular([&](ChangeLog& l) {
    l.insert(t, 1, {1, "a", "b"});
    l.insert(t, 2, {1, "a", "b"});
  }));
  EXPECT_TRUE(irregular([&](ChangeLog& l) {
    l.remove(t, 1, {1, kNull, kNull});
    l.update(t, 2, {1, "a", "b"});
  }));
  EXPECT_TRUE(irregular([&](ChangeLog& l) {
    l.remove(t, 1, {1, kNull, kNull});
    l.remove(t, 2, {1, kNull, kNull});
  }));
  EXPECT_TRUE(irregular([&](ChangeLog& l) {
    l.update(t, 1, {2, "a", "b"});
    l.update(t, 2, {2, "a", "b"}, {1, kNull, kNull});
  }));
  EXPECT_TRUE(irregular([&](ChangeLog& l) { l.insert(t, 1, {1, "a", kUnchanged}); }));
}

TEST(Batch, KeysOfSeveralColumnsDoNotRunTogether) {
  const TargetTable t = make_table("t", {{"k", "text", true}, {"l", "text", true}});
  ChangeLog log;
  log.insert(t, 1, {"a", "bc"});
  log.insert(t, 2, {"ab", "c"});
  log.insert(t, 3, {"", "abc"});
  const Batch batch = Batch::plan(log.all());
  ASSERT_FALSE(batch.irregular());
  EXPECT_EQ(batch.steps().at(0).tables.at(0).inserts.size(), 3u);
}

TEST(Batch, TablesWithoutKeyKeepTheirOrder) {
  const TargetTable t = make_table("t", {{"a", "text"}, {"b", "text"}});
  ChangeLog log;
  log.insert(t, 1, {"x", "1"});
  log.insert(t, 2, {"x", "1"});
  log.remove(t, 3, {"x", "1"});
  log.insert(t, 4, {"x", "2"});
  const Batch batch = Batch::plan(log.all());
  const auto& runs = batch.steps().at(0).tables.at(0).ordered;
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].inserts.size(), 2u);
  EXPECT_EQ(runs[1].change, &log.all()[2]);
  EXPECT_EQ(runs[2].inserts.size(), 1u);
}

TEST(Batch, AnyOrderIsNeverCoalesced) {
  TargetTable t = plain_table();
  t.delivery = Delivery::any_order;
  ChangeLog log;
  log.insert(t, 30, {1, "a", "b"});
  log.remove(t, 20, {1, kNull, kNull});
  const Batch batch = Batch::plan(log.all());
  const auto& runs = batch.steps().at(0).tables.at(0).ordered;
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].change, &log.all()[0]);
  EXPECT_EQ(runs[1].change, &log.all()[1]);
}

TEST(Batch, ANewShapeOfATableStartsANewStepAndTheSameShapeDoesNot) {
  const TargetTable t = plain_table(), again = plain_table();
  const TargetTable wider = make_table("t", {{"id", "integer", true}, {"a", "text"}, {"b", "text"}, {"c", "text"}});
  ChangeLog log;
  log.insert(t, 1, {1, "a", "b"});
  log.update(again, 2, {1, "a2", kUnchanged});
  log.update(wider, 3, {1, "a3", kUnchanged, "c"});
  const Batch batch = Batch::plan(log.all());
  ASSERT_EQ(batch.steps().size(), 2u);
  EXPECT_EQ(batch.steps()[0].tables.at(0).inserts.size(), 1u);
  EXPECT_EQ(batch.steps()[1].tables.at(0).updates.size(), 1u);
}

TEST(Batch, AReplacedRowWithAnAlwaysIdentityGoesAndComesAgain) {
  TargetTable t = make_table("t", {{"id", "integer", true}, {"n", "integer"}});
  t.columns[1].identity_always = true;
  ChangeLog log;
  log.remove(t, 1, {1, kNull});
  log.insert(t, 1, {1, 5});
  const Batch batch = Batch::plan(log.all());
  const TableBatch& table = batch.steps().at(0).tables.at(0);
  EXPECT_EQ(table.deletes.size(), 1u);
  EXPECT_EQ(table.inserts.size(), 1u);
  EXPECT_TRUE(table.updates.empty());
}

TEST(SortByKey, IntegersByValueTheRestByBytes) {
  const TargetTable numbers = make_table("n", {{"id", "bigint", true}});
  ChangeLog log;
  for (const char* key : {"10", "9", "-3", "9223372036854775807", "-9223372036854775808"})
    log.insert(numbers, 1, {key});
  std::vector<BatchRow> rows;
  for (const Change& change : log.all()) rows.push_back({change.new_row, change.commit_lsn});
  sort_by_key(numbers, rows);
  std::vector<std::string> keys;
  for (const BatchRow& row : rows) keys.push_back(cell_text(row.values[0]));
  EXPECT_EQ(keys, (std::vector<std::string>{"-9223372036854775808", "-3", "9", "10", "9223372036854775807"}));

  const TargetTable pairs = make_table("p", {{"k", "text", true}, {"n", "integer", true}});
  ChangeLog more;
  more.insert(pairs, 1, {"b", "2"});
  more.insert(pairs, 1, {"a", "10"});
  more.insert(pairs, 1, {"a", "9"});
  rows.clear();
  for (const Change& change : more.all()) rows.push_back({change.new_row, change.commit_lsn});
  sort_by_key(pairs, rows);
  EXPECT_EQ(cell_text(rows[0].values[1]), "9");
  EXPECT_EQ(cell_text(rows[1].values[1]), "10");
  EXPECT_EQ(cell_text(rows[2].values[0]), "b");
}

}  // namespace
}  // namespace pgbaton::apply
