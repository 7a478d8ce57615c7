// Updates and deletes whose row is not on the target, under `missing: stop` and `missing: repair`.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class MissingTest : public PairTest {};

// Every change that can meet a hole; rows 1 … 12 of each table are holes.
void change_everything(Cluster& source, const std::string& table) {
  source.exec("update " + table + " set n = 100 where id = 1");  // big is unchanged TOAST
  source.exec("update " + table + " set n = 100, big = 'small' where id = 2");
  source.exec("delete from " + table + " where id = 3");
  source.exec("update " + table + " set n = 100 where id = 4; update " + table + " set n = 101 where id = 4; update " +
              table + " set big = null where id = 4");
  source.exec("update " + table + " set n = 100 where id = 5; delete from " + table + " where id = 5");
  source.exec("update " + table + " set n = 100 where id = 6; delete from " + table + " where id = 6; insert into " +
              table + " values (6, 600, 'again')");
  source.exec("update " + table + " set n = 100 where id = 7; update " + table +
              " set id = 1007 where id = 7; update " + table + " set n = 107 where id = 1007");
  source.exec("update " + table + " set id = 1008 where id = 8");
  source.exec("update " + table + " set n = 100 where id = 9; update " + table +
              " set id = 1009 where id = 9; insert into " + table + " values (9, 900, 'new')");
  source.exec("update " + table + " set id = 1010, big = 'b' where id = 10; update " + table +
              " set n = 110 where id = 1010");
  source.exec("begin; update " + table + " set n = 1 where id = 11; update " + table +
              " set n = 2 where id = 11; delete from " + table + " where id = 12; insert into " + table +
              " values (12, 12, 'twelve'); commit");
}

TEST_F(MissingTest, RepairPutsRowsRightWhileNewerChangesAreInFlight) {
  for (const auto* table : {"guarded", "ledgered"})
    source().exec(std::string("create table ") + table + " (id int primary key, n int, big text); alter table " +
                  table + " alter big set storage external; insert into " + table +
                  " select i, i, repeat(i::text, 5000) from generate_series(1, 30) i");
  source().exec(
      "create type holder as (x int); create table uses (id int primary key, p ledgered); "
      "create table keyless (a int, b text); alter table keyless replica identity full; "
      "insert into keyless select i, 'b' || i from generate_series(1, 5) i");
  create_marker();
  clone_until_caught_up();
  ASSERT_EQ(target().scalar("select guard from pgbaton.table_state where table_name = 'ledgered'"), "ledger");
  target().exec(
      "delete from guarded where id <= 12; delete from ledgered where id <= 12; delete from keyless where a <= 2");
  for (const auto* table : {"guarded", "ledgered"}) change_everything(source(), table);
  source().exec("update keyless set b = 'changed' where a = 1; delete from keyless where a = 2");

  const auto stopped = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("(id)=(1)"));
  EXPECT_THAT(stopped.err, HasSubstr("\"public\".\"guarded\""));
  EXPECT_THAT(stopped.err, HasSubstr("--missing repair"));
  EXPECT_EQ(target().number("select count(*) from guarded"), 18);

  const auto repaired = run("follow", {"--until", "caught-up", "--missing", "repair"});
  EXPECT_EQ(repaired.code, 0) << repaired;
  EXPECT_THAT(repaired.err, HasSubstr("(id)=(1)"));
  EXPECT_THAT(repaired.err, HasSubstr("fetched from the source"));
  expect_equal();
  for (const std::string table : {"guarded", "ledgered"})
    EXPECT_GE(target().number("select missing_rows from pgbaton.table_state where table_name = '" + table + "'"), 11);
  EXPECT_EQ(target().number("select missing_rows from pgbaton.table_state where table_name = 'keyless'"), 2);
  EXPECT_GE(
      target().number("select count(*) from pgbaton.event where kind = 'missing_row' and detail->>'key' is not null"),
      13);
  EXPECT_THAT(run("status", {"--json"}).out, HasSubstr("\"missing_rows\": "));
  EXPECT_EQ(source().number("select count(*) from pg_replication_slots"), 1) << "temporary slots are gone";

  // What comes later finds guards that let it pass.
  for (const std::string table : {"guarded", "ledgered"})
    source().exec("update " + table + " set n = n + 1; update " + table + " set id = id + 5000; delete from " + table +
                  " where id = 5020");
  expect_equal_after_drain();
}

// Without a guard a row cannot be fetched, and nothing is made up.
TEST_F(MissingTest, WithoutAGuardNothingIsFetched) {
  source().exec(
      "create table plain (id int primary key, n int, big text); alter table plain alter big set storage external; "
      "insert into plain values (1, 1, repeat('x', 9000)), (2, 1, 'small')");
  clone_until_caught_up({"--guard", "none"});
  target().exec("delete from plain");
  source().exec("update plain set n = 2 where id = 2; update plain set n = 2 where id = 1");
  const auto refused = run("follow", {"--until", "caught-up", "--missing", "repair"});
  EXPECT_EQ(refused.code, 8) << refused;
  EXPECT_THAT(refused.err, HasSubstr("(id)=(1)"));
  EXPECT_THAT(refused.err, HasSubstr("no guard"));
  target().exec("insert into plain values (1, 1, repeat('x', 9000))");
  const auto repaired = run("follow", {"--until", "caught-up", "--missing", "repair"});
  EXPECT_EQ(repaired.code, 0) << repaired;
  expect_equal();
}

// The target loses rows while changes keep coming, and one writer's transactions are open when a row is fetched.
TEST_F(MissingTest, RepairUnderLoad) {
  source().exec(
      "create table t (id int primary key, n int, big text); alter table t alter big set storage external; "
      "insert into t select i, 0, repeat(i::text, 2000) from generate_series(1, 50) i");
  create_marker();
  clone_until_caught_up();
  auto follower = start("follow", {"--missing", "repair"});
  ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
  Load load(source().conninfo(), 3, [](Load::Turn& turn) {
    const auto id = std::to_string(1 + (turn.round * 7 + turn.thread * 13) % 50);
    if (turn.round % 11 == 3)
      turn.session.exec("begin; delete from t where id = " + id + "; insert into t values (" + id +
                        ", 0, repeat('n', 9000)) on conflict do nothing; commit");
    else
      turn.session.exec("update t set n = n + 1 where id = " + id);
    // What a repaired row's guard makes stale is replayed change by change, slower than three writers at full speed.
    std::this_thread::sleep_for(Milliseconds(5));
  });
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(load.wait_done(load.done() + 100));
    // In small steps: a DELETE of many rows and the applier lock them in another order each.
    for (int id = 5 + i; id <= 50; id += 5) target().exec("delete from t where id = " + std::to_string(id));
  }
  ASSERT_TRUE(load.wait_done(load.done() + 300));
  load.stop();
  EXPECT_THAT(load.errors(), ::testing::IsEmpty());
  source().exec("update t set n = n + 1");  // a row that nobody touches stays missing
  EXPECT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
