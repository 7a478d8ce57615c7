// Rows whose keys change, whose big values stay untouched, or that consist of keys only; each once streamed change by
// change as it happens, and once as a backlog that the batch merges.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

enum class Arrival { live, backlog };
void PrintTo(Arrival arrival, std::ostream* out) {
  *out << (arrival == Arrival::live ? "live" : "backlog");
}

class RowsTest : public PairTest, public ::testing::WithParamInterface<Arrival> {
 protected:
  // Runs the statements, each its own transaction, and brings them to the target; then both sides must be equal.
  void replicate(const std::vector<std::string>& statements) {
    if (GetParam() == Arrival::backlog) {
      auto session = source().session();
      for (const auto& statement : statements) session.exec(statement);
      expect_equal_after_drain();
      return;
    }
    auto follower = start("follow");
    auto session = source().session();
    for (const auto& statement : statements) {
      session.exec(statement);
      ASSERT_TRUE(marker_arrives()) << "after " << statement << "\n" << follower.err();
      expect_equal({.exclude = {"public.marker"}});
    }
    stop_follower(follower);
    expect_equal();
  }
};

INSTANTIATE_TEST_SUITE_P(Arrival, RowsTest, ::testing::Values(Arrival::live, Arrival::backlog),
                         ::testing::PrintToStringParamName());

TEST_P(RowsTest, S26_KeysChange) {
  source().exec(
      "create table t (id int primary key, v text, w text default 'w'); "
      "insert into t select i, 'v' || i from generate_series(1, 50) i");
  create_marker();
  clone_until_caught_up();
  const auto before = source().scalar("select pg_current_wal_insert_lsn()");
  replicate({
      "update t set id = 1001 where id = 1",
      "begin; insert into t values (60, 'new'); update t set id = 61 where id = 60; commit",
      "begin; insert into t values (70, 'new'); update t set id = 71 where id = 70; update t set id = 72 where id = "
      "71; "
      "update t set v = 'end' where id = 72; commit",
      "begin; update t set id = 9999 where id = 2; update t set id = 2 where id = 3; update t set id = 3 where id = "
      "9999; "
      "commit",  // a swap through a third value
      "begin; update t set id = 1004 where id = 4; insert into t values (4, 'another'); commit",
      "begin; delete from t where id = 5; update t set id = 5 where id = 6; commit",
      "begin; update t set id = 1007 where id = 7; delete from t where id = 1007; commit",
      "update t set id = id + 2000 where id between 10 and 20",
      "update t set id = id + 1 where id between 2010 and 2019 and id % 2 = 0 and not exists "
      "(select from t u where u.id = t.id + 1)",
      "begin; update t set id = 3030 where id = 30; rollback",
  });
  EXPECT_EQ(target().number("select count(*) from t where id in (1, 60, 70, 71, 6, 7, 1007, 9999) or "
                            "id between 10 and 20"),
            0);
  const auto after = source().scalar("select pg_current_wal_flush_lsn()");
  // Guards: what changed carries a commit LSN of this test, what did not still carries its boundary.
  EXPECT_EQ(target().number("select count(*) from t where (id in (1001, 61, 72, 2, 3, 1004, 4, 5) or id > 2000) and "
                            "not (_pgbaton_lsn between '" +
                            before + "' and '" + after + "')"),
            0);
  EXPECT_EQ(target().number("select count(*) from t where id between 30 and 50 and _pgbaton_lsn >= '" + before + "'"),
            0);
  EXPECT_EQ(target().number("select count(distinct _pgbaton_lsn) from t where id in (1004, 4)"), 1)
      << "one transaction, one guard";
}

TEST_P(RowsTest, S27_UntouchedBigValuesStay) {
  source().exec(
      "create table t (id int primary key, n int default 0, big jsonb, other text);"
      "alter table t alter big set storage external, alter other set storage external;"
      "create function big(seed int) returns jsonb language sql as $$ select to_jsonb(string_agg(md5((seed * 10000 + j)"
      "::text), '')) from generate_series(1, 3200) j $$;"
      "insert into t select i, 0, big(i), repeat(md5(i::text), 200) from generate_series(1, 10) i");
  create_marker();
  clone_until_caught_up();
  expect_equal();
  replicate({
      "update t set n = n + 1",
      "begin; update t set n = n + 1 where id = 1; update t set n = n + 1 where id = 1; commit",
      "begin; update t set big = big(101) where id = 2; update t set n = 50 where id = 2; commit",
      "begin; insert into t values (11, 0, big(11), 'short'); update t set n = 1 where id = 11; commit",
      "update t set id = id + 100, n = n + 1 where id = 3",  // the key changes, the big columns do not travel
      "begin; update t set n = 7 where id = 4; update t set id = 104 where id = 4; update t set n = 8 where id = 104; "
      "commit",
      "begin; update t set big = null where id = 5; update t set n = 9 where id = 5; commit",
      "update t set big = null where id = 103",
      "begin; update t set id = 201 where id = 6; update t set id = 6 where id = 7; update t set id = 7 where id = "
      "201; "
      "commit",  // a swap: each row keeps its own big value
      "begin; update t set other = 'now short' where id = 8; update t set n = n + 1 where id = 8; commit",
      "begin; delete from t where id = 9; insert into t values (9, 1, big(109), null); update t set n = 2 where id = "
      "9; "
      "commit",
  });
  EXPECT_EQ(target().number("select count(*) from t where big is null"), 2);
}

TEST_P(RowsTest, S36_OnlyKeyColumnsAndNoOpUpdates) {
  source().exec(
      "create table keys (a int, b text, primary key (a, b)); create table t (id int primary key, v text);"
      "insert into keys select i, 'k' || i from generate_series(1, 20) i; insert into t select i, 'v' from "
      "generate_series(1, 20) i");
  create_marker();
  clone_until_caught_up();
  replicate({
      "update t set v = v",
      "update keys set a = a, b = b",
      "begin; update keys set a = a; update keys set a = 100 where a = 1; commit",
      "begin; insert into keys values (50, 'x'); delete from keys where a = 50; insert into keys values (50, 'x'); "
      "commit",
      "update t set v = v where id in (select id from t limit 5)",
      "delete from keys where a = 2",
  });
}

}  // namespace
}  // namespace pgbaton::testing
