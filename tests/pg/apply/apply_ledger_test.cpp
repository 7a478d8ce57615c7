// What is special about a ledger: keys of any type and number, equality that is not identity, TRUNCATE, rows without
// anything to overwrite, and that the entry is written with the row or not at all.
#include "apply_fixture.hpp"

namespace pgbaton::testing {
namespace {

using apply::Delivery;
using apply::Strategy;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LedgerApply : public ApplyTest {
 protected:
  std::vector<std::string> entries(const apply::TargetTable& table, const std::string& keys = "k1") {
    return rows("select " + keys + ", commit_lsn, deleted from " + table.ledger + " order by 1, 2");
  }
  // The log through both strategies, each on the table of its own that `make` yields.
  template <typename Fill>
  void both(const std::function<apply::TargetTable(const std::string&)>& make, Fill fill,
            const std::function<void(const apply::TargetTable&)>& look) {
    for (Strategy strategy : {Strategy::batch, Strategy::change_by_change}) {
      SCOPED_TRACE(strategy == Strategy::batch ? "batch" : "change by change");
      const auto table = make(strategy == Strategy::batch ? "batch" : "each");
      ChangeLog log;
      fill(log, table);
      apply_late(*applier(strategy), log);
      look(table);
    }
  }
};

TEST_F(LedgerApply, KeysOfManyColumnsAndTypes) {
  db().exec(
      "create extension citext; create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = "
      "false); create domain code as text check (value <> ''); create type mood as enum ('sad', 'so so')");
  both(
      [&](const std::string& name) {
        db().exec(
            "create table " + name +
            " (a citext, b text collate nocase, c numeric(10, 3), d bytea, e timestamptz, f uuid, g code, h mood, "
            "i int[], v text, primary key (a, b, c, d, e, f, g, h, i))");
        return ledgered(name, {"a", "b", "c", "d", "e", "f", "g", "h", "i"});
      },
      [](ChangeLog& log, const apply::TargetTable& table) {
        const auto row = [](const char* a, const char* b, const char* c, const Cell& v) {
          return Cells{a,
                       b,
                       c,
                       "\\x00ff",
                       "2020-02-29 12:00:00+00",
                       "6f1c5f0e-0000-4000-8000-000000000001",
                       "q\"\\",
                       "so so",
                       "[2:3]={1,NULL}",
                       v};
        };
        log.insert(table, 20, row("K", "x", "1.5", "one"));
        log.insert(table, 20, row("L", "x", "1.5", "two"));
        log.insert(table, 20, row("M", "x", "1.5", "three"));
        log.update(table, 30, row("K", "x", "1.5", "newer"));
        // Spelling only: for the target, old and new key are one.
        log.update(table, 40, row("l", "X", "1.500", "spelled"), row("L", "x", "1.5", kNull));
        log.remove(table, 50, row("M", "x", "1.5", kNull));
      },
      [&](const apply::TargetTable& table) {
        EXPECT_THAT(rows("select a, b, c, v from " + table.name.name + " order by a"),
                    ElementsAre("K|x|1.500|newer", "l|X|1.500|spelled"));
        EXPECT_THAT(entries(table, "k1, k2, k3::numeric(10, 3)"),
                    ElementsAre("K|x|1.500|0/1E|f", ::testing::MatchesRegex("[lL]\\|[xX]\\|1.500\\|0/28\\|f"),
                                "M|x|1.500|0/32|t"));
      });
}

TEST_F(LedgerApply, TruncateAndTheSameKeysAgain) {
  db().exec(
      "insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid) values "
      "('r', 'g', 'public', 'batch', 1), ('r', 'g', 'public', 'each', 2)");
  both(
      [&](const std::string& name) {
        db().exec("create table " + name + " (id int primary key, v text); insert into " + name +
                  " select i, 'copied' from generate_series(1, 3) i");
        return ledgered(name, {"id"});
      },
      [](ChangeLog& log, const apply::TargetTable& table) {
        log.update(table, 20, {1, "old"});
        log.insert(table, 20, {7, "old"});
        log.truncate(30, {&table});
        log.insert(table, 30, {1, "again"});
        log.insert(table, 40, {2, "later"});
      },
      [&](const apply::TargetTable& table) {
        EXPECT_THAT(rows("select id, v from " + table.name.name + " order by id"), ElementsAre("1|again", "2|later"));
        EXPECT_THAT(entries(table), ElementsAre("1|0/1E|f", "2|0/28|f", "7|0/14|t"));
        EXPECT_EQ(db().scalar("select floor_lsn from pgbaton.table_state where table_name = " +
                              quote_literal(table.name.name)),
                  "0/1E");
        // Late: below its own tombstone, below the floor, above everything.
        auto late_table = table;
        late_table.delivery = Delivery::any_order;
        ChangeLog late;
        late.insert(late_table, 16, {7, "back"});
        late.insert(late_table, 25, {3, "back"});
        late.insert(late_table, 35, {8, "new"});
        apply_late(*applier(), late);
        EXPECT_THAT(rows("select id, v from " + table.name.name + " order by id"),
                    ElementsAre("1|again", "2|later", "8|new"));
      });
}

TEST_F(LedgerApply, S36_RowsOfKeyColumnsOnly) {
  both(
      [&](const std::string& name) {
        db().exec("create table " + name + " (a int, b int, primary key (a, b)); insert into " + name +
                  " values (1, 1), (2, 2)");
        return ledgered(name, {"a", "b"});
      },
      [](ChangeLog& log, const apply::TargetTable& table) {
        log.update(table, 20, {1, 1});
        log.update(table, 20, {3, 3}, {2, 2});
        log.insert(table, 30, {4, 4});
        log.remove(table, 40, {4, 4});
        log.insert(table, 50, {5, 5});
      },
      [&](const apply::TargetTable& table) {
        EXPECT_THAT(rows("select * from " + table.name.name + " order by 1"), ElementsAre("1|1", "3|3", "5|5"));
        EXPECT_THAT(entries(table, "k1, k2"),
                    ElementsAre("1|1|0/14|f", "2|2|0/14|t", "3|3|0/14|f", "4|4|0/28|t", "5|5|0/32|f"));
        // Nothing to overwrite, but the entry rises: the delete that comes late is older than the insert.
        auto late_table = table;
        late_table.delivery = Delivery::any_order;
        ChangeLog late;
        late.insert(late_table, 70, {5, 5});
        late.remove(late_table, 60, {5, 5});
        apply_late(*applier(), late);
        EXPECT_THAT(rows("select a from " + table.name.name + " where a = 5"), ElementsAre("5"));
      });
}

// A column GENERATED ALWAYS AS IDENTITY cannot be set: the row goes and comes again, also with its key.
TEST_F(LedgerApply, IdentityAlways) {
  both(
      [&](const std::string& name) {
        db().exec("create table " + name +
                  " (id int generated always as identity primary key, n int generated always as identity, v text); "
                  "insert into " +
                  name + " overriding system value values (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')");
        return ledgered(name, {"id"});
      },
      [](ChangeLog& log, const apply::TargetTable& table) {
        log.update(table, 20, {1, 10, "n changed"});
        log.update(table, 30, {20, 2, "key changed"}, {2, kNull, kNull});
        log.remove(table, 40, {3, kNull, kNull});
        log.insert(table, 40, {3, 33, "came again"});
      },
      [&](const apply::TargetTable& table) {
        EXPECT_THAT(rows("select * from " + table.name.name + " order by 1"),
                    ElementsAre("1|10|n changed", "3|33|came again", "20|2|key changed"));
        EXPECT_THAT(entries(table), ElementsAre("1|0/14|f", "2|0/1E|t", "3|0/28|f", "20|0/1E|f"));
      });
}

TEST_F(LedgerApply, WithARefusedRowNoEntryStays) {
  db().exec("create table t (id int primary key, v text check (v <> 'bad')); insert into t values (1, 'a')");
  const auto table = ledgered("t", {"id"});
  ChangeLog log;
  log.update(table, 20, {1, "good"});
  log.update(table, 30, {1, "bad"});
  const auto applier = this->applier();
  EXPECT_EQ(refusal(*applier, log).kind(), ErrorKind::rejected);
  EXPECT_THAT(entries(table), IsEmpty());
  ChangeLog missing;
  missing.update(table, 20, {9, "missing"});
  EXPECT_EQ(refusal(*applier, missing).key(), "(id)=(9)");
  ChangeLog conflict;  // a row that did not come from the source is not taken over
  conflict.insert(table, 20, {1, "mine"});
  EXPECT_EQ(refusal(*applier, conflict).kind(), ErrorKind::rejected);
  EXPECT_THAT(rows("table t"), ElementsAre("1|a"));
  EXPECT_THAT(entries(table), IsEmpty());
}

// A partitioned target under a source that is not: one ledger, rows anywhere.
TEST_F(LedgerApply, PartitionedOnTheTargetOnly) {
  both(
      [&](const std::string& name) {
        db().exec("create table " + name + " (id int primary key, v text) partition by range (id); create table " +
                  name + "_1 partition of " + name + " for values from (0) to (10); create table " + name +
                  "_2 partition of " + name + " for values from (10) to (100); insert into " + name +
                  " values (1, 'a'), (2, 'b')");
        return ledgered(name, {"id"});
      },
      [](ChangeLog& log, const apply::TargetTable& table) {
        log.update(table, 20, {11, "moved"}, {1, kNull});
        log.remove(table, 30, {2, kNull});
        log.insert(table, 30, {12, "new"});
      },
      [&](const apply::TargetTable& table) {
        EXPECT_THAT(rows("select * from " + table.name.name + " order by 1"), ElementsAre("11|moved", "12|new"));
        EXPECT_THAT(entries(table), ElementsAre("1|0/14|t", "2|0/1E|t", "11|0/14|f", "12|0/1E|f"));
      });
}

}  // namespace
}  // namespace pgbaton::testing
