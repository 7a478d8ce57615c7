// The source's tables change while the stream runs (S38), and rows that should be on the target are not.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DriftTest : public PairTest {
 protected:
  static Arguments drain(const Arguments& more = {}) {
    Arguments all{"--until", "caught-up"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The statements that the hint offers.
  static std::string statements(const ToolResult& result) {
    const std::string before = "On the target run: ", after = "then run the same command again";
    const auto at = result.err.find(before), end = result.err.find(after);
    if (at == std::string::npos || end == std::string::npos) return {};
    return result.err.substr(at + before.size(), end - at - before.size());
  }
};

struct Drift {
  std::string name, ddl, says, statement;
};

// Each stops the stream before the first row that does not fit, and its own statement lets it go on.
TEST_F(DriftTest, S38_StopsAndTheStatementMendsTheTarget) {
  const std::vector<Drift> drifts{
      {"added", "alter table added add column w int default 7 not null; insert into added values (10, 'x', 1, 8)",
       "column \"w\" (integer) is new", "ADD COLUMN \"w\" integer DEFAULT 7 NOT NULL"},
      {"moment", "alter table moment add column t timestamptz default now(); insert into moment values (10, 'x', 1)",
       "column \"t\" (timestamp with time zone) is new on the source",
       "ADD COLUMN \"t\" timestamp with time zone DEFAULT '"},
      {"each",
       "alter table each add column t timestamptz default clock_timestamp(); insert into each values (10, 'x', 1)",
       "is new, and each row that was there may hold another value", "ADD COLUMN \"t\""},
      {"dropped", "alter table dropped drop column n; insert into dropped values (10, 'x')", "column \"n\" is NOT NULL",
       "ALTER COLUMN \"n\" DROP NOT NULL"},
      {"renamed", "alter table renamed rename column n to \"N 2\"; insert into renamed values (10, 'x', 1)",
       "column \"n\" was renamed to \"N 2\"", "RENAME COLUMN \"n\" TO \"N 2\""},
      {"retyped", "alter table retyped alter column n type bigint; insert into retyped values (10, 'x', 5000000000)",
       "column \"n\" is bigint on the source and integer on the target", "TYPE bigint"},
      {"longer",
       "alter table longer alter column v type varchar(20); insert into longer values (10, 'longer than 10', 1)",
       "character varying(20)", "TYPE character varying(20)"},
      {"mixed",
       "begin; insert into mixed values (10, 'before', 1); alter table mixed add column w text; "
       "alter table mixed add column t timestamptz default now(); "
       "update mixed set w = v where id = 10; insert into mixed values (11, 'after', 1, 'w'); commit",
       "column \"w\" (text) is new", "ADD COLUMN \"w\" text"},
      {"table_name",
       "create schema moved; alter table table_name rename to \"New name\"; alter table \"New name\" set schema moved; "
       "insert into moved.\"New name\" values (10, 'x', 1)",
       "the target still calls it", "RENAME TO \"New name\""},
      {"two",
       "alter table two rename column v to u; alter table two add column v int; "
       "insert into two values (10, 'x', 1, 2)",
       "column \"v\"", "RENAME COLUMN \"v\" TO \"u\""},
  };
  for (const auto& drift : drifts)
    source().exec("create table " + drift.name + " (id int primary key, v varchar(10), n int not null); insert into " +
                  drift.name + " select i, 'v' || i, i from generate_series(1, 5) i");
  clone_until_caught_up();
  for (const auto& drift : drifts) {
    SCOPED_TRACE(drift.name);
    source().exec(drift.ddl);
    const auto stopped = run("follow", drain());
    EXPECT_EQ(stopped.code, 8) << stopped;
    EXPECT_THAT(stopped.err, HasSubstr(drift.says));
    EXPECT_THAT(stopped.err, HasSubstr("\"public\".\"" + drift.name + "\""));
    if (drift.name == "table_name") target().exec("create schema moved");
    const auto mending = statements(stopped);
    EXPECT_THAT(mending, HasSubstr(drift.statement)) << stopped;
    EXPECT_EQ(target().number("select count(*) from " + drift.name), 5) << "nothing of that transaction was applied";
    if (drift.name == "each") {  // a person must fill it
      target().exec("alter table each add column t timestamptz");
      for (const auto& row : source().query("select id, t from each where id < 10"))
        target().exec("update each set t = '" + *row[1] + "' where id = " + *row[0]);
    } else {
      target().exec(mending);
    }
    const auto on = run("follow", drain());
    EXPECT_EQ(on.code, 0) << on;
  }
  target().exec("alter table dropped drop column n");
  expect_equal();
}

// Columns that come while the stream runs, and the values of rows that were there.
TEST_F(DriftTest, S38_AddColumnsGoesOnByItself) {
  source().exec(
      "create type mood as enum ('sad', 'it''s ok'); "
      "create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 5) i; "
      "create table p (id int, d int, primary key (id, d)) partition by list (d); "
      "create table p1 partition of p for values in (1); create table p2 partition of p for values in (2); "
      "insert into p values (1, 1), (2, 2); "
      "create table parent (id int primary key); create table child (primary key (id)) inherits (parent); "
      "insert into parent values (1); insert into child values (2); "
      "create table whole (a int, b text); alter table whole replica identity full; insert into whole values (1, 'x')");
  create_marker();
  clone_until_caught_up();
  const Arguments add{"--drift", "add-columns"};
  auto follower = start("follow", add);
  ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
  source().exec(
      "alter table t add column plain int, add column fixed int default 5 not null, "
      "add column moment timestamptz default now(), add column kind mood default 'it''s ok', "
      "add column list text[] default '{a,\"b c\",NULL}', add column amount numeric(10,2) default 1.50, "
      "add column \"Odd name\" varchar(7) collate \"C\" default 'x\\y'; "
      "insert into t (id, v) values (6, 'six')");
  source().exec("alter table t alter fixed set default 6; insert into t (id, v) values (7, 'seven')");
  source().exec(
      "begin; insert into t (id, v) values (8, 'eight'); alter table t add column late text; "
      "update t set late = 'late' where id < 3; insert into t (id, v, late) values (9, 'nine', 'l'); commit");
  source().exec(
      "alter table t add column later text default 'no'; alter table t alter later drop default; "
      "update t set v = 'changed' where id = 1");
  source().exec("alter table p add column n int default 3; insert into p values (3, 1, 4), (4, 2, 5)");
  source().exec(
      "alter table parent add column n int default 3; insert into child values (3, 4); "
      "insert into parent values (4, 5)");
  source().exec(
      "alter table whole add column c int default 1; update whole set b = 'y'; insert into whole values (1, 'z', 2)");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
  expect_equal();
  EXPECT_EQ(target().number("select count(*) from pgbaton.event where kind = 'column_added'"), 14);
  const std::string defaults =
      "select string_agg(a.attname || ' ' || a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '-'), '; "
      "' "
      "order by a.attname) from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum "
      "where a.attrelid in ('t'::regclass, 'p'::regclass) and a.attnum > 0 and not a.attisdropped and a.attname not in "
      "('_pgbaton_lsn', 'fixed')";
  EXPECT_EQ(source().scalar(defaults), target().scalar(defaults));

  // Again on a fresh start: what was added is known, and a later rename of it is seen for what it is.
  source().exec("alter table t rename column late to latest; insert into t (id, v) values (20, 'x')");
  const auto renamed = run("follow", drain(add));
  EXPECT_EQ(renamed.code, 8) << renamed;
  EXPECT_THAT(renamed.err, HasSubstr("column \"late\" was renamed to \"latest\""));
  target().exec(statements(renamed));
  source().exec("alter table t add column r float8 default random(); insert into t (id, v) values (21, 'x')");
  const auto random = run("follow", drain(add));
  EXPECT_EQ(random.code, 8) << random;
  EXPECT_THAT(random.err, HasSubstr("each row that was there may hold another value"));
  target().exec("alter table t add column r float8");
  for (const auto& row : source().query("select id, r from t where id <= 20"))
    target().exec("update t set r = " + *row[1] + " where id = " + *row[0]);
  const auto on = run("follow", drain(add));
  EXPECT_EQ(on.code, 0) << on;
  expect_equal();
}

// One transaction larger than every queue, with DDL in its middle: the column comes within the target's transaction.
TEST_F(DriftTest, S38_AddColumnInsideAHugeTransaction) {
  create_filled("t", 100);
  clone_until_caught_up();
  source().exec(
      "begin; insert into t select i, i, repeat('x', 100) from generate_series(101, 70000) i; "
      "alter table t add column w int default 4; "
      "insert into t select i, i, 'y', i from generate_series(70001, 90000) i; commit");
  const auto result = run("follow", drain({"--drift", "add-columns", "--memory", "4MB"}));
  EXPECT_EQ(result.code, 0) << result;
  expect_equal();
}

// Partitions that come while the stream runs: made empty, attached with rows, nested, and with the root's later
// columns.
TEST_F(DriftTest, S34_NewPartitionsMidStream) {
  source().exec(
      "create table p (id int, d int, v text, primary key (id, d)) partition by range (d); "
      "create table p1 partition of p for values from (0) to (10); "
      "insert into p select i, i, 'v' from generate_series(0, 9) i; "
      "create table other (id int primary key); insert into other values (1)");
  create_marker();
  clone_until_caught_up();
  source().exec("create table p2 partition of p for values from (10) to (20); insert into p values (10, 10, 'first')");
  const auto stopped = run("follow", drain());
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("\"public\".\"p2\""));
  EXPECT_THAT(stopped.err, HasSubstr("pgbaton follow --drift add-columns"));

  auto follower = start("follow", {"--drift", "add-columns"});
  EXPECT_TRUE(marker_arrives()) << follower.err();
  expect_equal();
  Load load(source().conninfo(), 2, [](Load::Turn& turn) {
    const auto id = std::to_string(5000 + turn.round * 2 + turn.thread);
    turn.session.exec("insert into p values (" + id + ", " + std::to_string(turn.round % 20) + ", 'load')");
    turn.session.exec("update p set d = (d + 10) % 20, v = v || '.' where id = " + id);
  });
  // Rows before the partition is attached are in no stream; those after it are.
  source().exec(
      "create table p3 (d int not null, v text, id int not null); insert into p3 select 20, 'before', i from "
      "generate_series(1, 1000) i; alter table p attach partition p3 for values from (20) to (30); "
      "insert into p values (2000000, 25, 'after'); update p set v = 'changed' where id = 5 and d = 20; "
      "update p set d = 21 where d = 3; delete from p where id = 6 and d = 20");
  source().exec(
      "create table p4 partition of p for values from (30) to (40) partition by list (d); "
      "create table p4a partition of p4 for values in (30); create table p4b partition of p4 default; "
      "insert into p values (30, 30, 'a'), (31, 31, 'b')");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  source().exec(
      "alter table p add column w int default 3; insert into p values (3000000, 22, 'x', 4), (32, 32, 'x', 5)");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  source().exec(
      "create table p5 partition of p for values from (40) to (50); insert into p values (40, 40, 'e', 6); "
      "truncate p2; insert into p values (11, 11, 'again', 7)");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
  expect_equal();
  EXPECT_GE(target().number("select count(*) from pgbaton.event where kind = 'partition_taken_in'"), 5);
  EXPECT_EQ(source().number("select count(*) from pg_replication_slots"), 1);
}

// A partition that comes later has a ledger where its siblings have one.
TEST_F(DriftTest, S34_NewPartitionWithALedger) {
  source().exec(
      "create table p (id int, d int, v text, primary key (id, d)) partition by list (d); "
      "create table p1 partition of p for values in (1); insert into p values (1, 1, 'a')");
  clone_until_caught_up({"--guard", "ledger"});
  source().exec("create table p2 partition of p for values in (2); insert into p values (2, 2, 'copied')");
  EXPECT_EQ(run("follow", drain({"--drift", "add-columns"})).code, 0);
  EXPECT_EQ(
      target().scalar("select guard || ' ' || guarded || ' ' || phase from pgbaton.table_state where table_name = "
                      "'p2'"),
      "ledger true done");
  source().exec("update p set v = 'b'; insert into p values (3, 2, 'streamed'); delete from p where id = 2");
  EXPECT_EQ(run("follow", drain()).code, 0);
  expect_equal();
  EXPECT_EQ(target().number("select count(*) from pgbaton." +
                            target().scalar("select ledger from pgbaton.table_state where table_name = 'p2'")),
            2);
}

// A dropped column stays on the target, and is reported with the statement that drops it there, too.
TEST_F(DriftTest, S38_ADroppedColumnIsReported) {
  source().exec(
      "create table t (id int primary key, gone text, stays text); insert into t values (1, 'g', 's'); "
      "create table m (id int primary key, again int); insert into m values (1, 1)");
  clone_until_caught_up();
  source().exec(
      "alter table t drop column gone; insert into t values (2, 's2'); "
      "alter table m drop column again; alter table m add column again int; insert into m values (2, 2)");
  const auto followed = run("follow", drain());
  EXPECT_EQ(followed.code, 0) << followed;
  EXPECT_THAT(followed.err, HasSubstr("ALTER TABLE \"public\".\"t\" DROP COLUMN \"gone\""));
  EXPECT_THAT(followed.err, HasSubstr("column \"again\" is another one on the source"));
  EXPECT_EQ(target().scalar("select string_agg(id || coalesce(gone, '-') || stays, ',' order by id) from t"),
            "1gs,2-s2");
  EXPECT_EQ(target().scalar("select string_agg(kind, ',' order by kind) from pgbaton.event where kind like 'column%'"),
            "column_dropped");
  EXPECT_THAT(run("status", {"--json"}).out, HasSubstr("was dropped on the source"));
  target().exec("alter table t drop column gone; update m set again = null where id = 1");
  expect_equal_after_drain();
}

}  // namespace
}  // namespace pgbaton::testing
