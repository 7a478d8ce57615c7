// The stream on quiet and busy sources: positions, ends, requests to be caught up.
#include "support/pair.hpp"
#include "support/promptly.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Lt;

class StreamTest : public PairTest {
 protected:
  void clone_simple() {
    source().exec("create table t (id bigint primary key, v text); insert into t values (1, 'one')");
    create_marker();
    clone_until_caught_up();
  }
};

TEST_F(StreamTest, S13_ManyRowsOfOneCommit) {
  source().exec("create table t (id bigint primary key, v text); create table log (id bigint, v text)");
  create_marker();
  clone_until_caught_up();
  auto follower = start("follow");
  source().exec("copy t from program 'seq 1 10000 | sed ''s/$/\\tcopied/'''");
  source().exec("insert into t select i, 'selected' from generate_series(10001, 11000) i");
  source().exec("insert into log select id, v from t where id <= 1000");
  EXPECT_TRUE(marker_arrives());
  stop_follower(follower);
  expect_equal();
  EXPECT_EQ(target().number("select count(*) from t"), 11'000);
  EXPECT_EQ(target().number("select count(distinct _pgbaton_lsn) from t"), 2) << "one guard per source transaction";
}

TEST_F(StreamTest, S17_UntilLsnOnIdleSource) {
  clone_simple();
  const auto lsn = source().scalar("select pg_current_wal_flush_lsn()");
  const auto result = run("follow", {"--until-lsn", lsn});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_LT(result.elapsed, kPromptly);
}

TEST_F(StreamTest, S17_UntilLsnInsideAnOpenTransaction) {
  clone_simple();
  auto open = source().session();
  open.exec("begin; insert into t values (100, 'open')");
  source().exec("insert into t values (200, 'before')");
  const auto lsn = source().scalar("select pg_current_wal_flush_lsn()");
  open.exec("insert into t values (101, 'open'); commit");
  source().exec("insert into t values (300, 'after')");
  const auto result = run("follow", {"--until-lsn", lsn});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_EQ(target().scalar("select string_agg(id::text, ',' order by id) from t"), "1,200");
  expect_equal_after_drain();
  EXPECT_EQ(target().number("select count(*) from t where v = 'open'"), 2);
}

TEST_F(StreamTest, S19_OneInsertThenNothing) {
  clone_simple();
  source().exec("create database other");
  source().exec("create table noise (a text)", "other");
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  const auto began = std::chrono::steady_clock::now();
  source().exec("insert into t values (2, 'two')");
  ASSERT_TRUE(target().wait_until("select count(*) from t where id = 2", "1", Milliseconds(5'000)));
  EXPECT_THAT(std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began).count(), Lt(1'000));

  source().exec("insert into noise select repeat(md5(i::text), 20) from generate_series(1, 20000) i", "other");
  const auto noise_end = source().scalar("select pg_current_wal_flush_lsn()");
  const std::string confirmed =
      "select confirmed_flush_lsn >= '" + noise_end + "' from pg_replication_slots where slot_name = 'pgbaton'";
  EXPECT_TRUE(source().wait_until(confirmed, "t", Milliseconds(15'000))) << "a quiet table pins WAL";
  std::string lag;
  for (int i = 0; i < 100 && lag != "0"; ++i) {
    lag = status_field("lag.bytes");
    if (lag != "0") std::this_thread::sleep_for(Milliseconds(100));
  }
  EXPECT_EQ(lag, "0");
  stop_follower(follower);
  expect_equal();
}

TEST_F(StreamTest, S25_EmittedMessagesAreIgnored) {
  clone_simple();
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  source().exec("select pg_logical_emit_message(false, 'somebody', 'not transactional')");
  source().exec(
      "begin; insert into t values (2, 'two'); select pg_logical_emit_message(true, 'somebody', 'inside'); "
      "insert into t values (3, 'three'); commit");
  source().exec("begin; select pg_logical_emit_message(true, 'somebody', 'alone'); commit");
  source().exec("begin; insert into t values (4, 'never'); select pg_logical_emit_message(true, 'x', 'y'); rollback");
  source().exec("select pg_logical_emit_message(false, 'somebody', repeat('x', 1000000))");
  const auto end = source().scalar("select pg_current_wal_flush_lsn()");
  EXPECT_TRUE(source().wait_until("select confirmed_flush_lsn >= '" + end + "' from pg_replication_slots", "t"));
  stop_follower(follower);
  expect_equal();
  EXPECT_EQ(target().scalar("select string_agg(id::text, ',' order by id) from t"), "1,2,3");
}

TEST_F(StreamTest, S60_CaughtUpAfterSegmentSwitch) {
  clone_simple();
  for (int i = 0; i < 3; ++i) {
    source().exec("select pg_switch_wal()");
    const auto result = run("follow", {"--until", "caught-up"});
    EXPECT_EQ(result.code, 0) << result;
    EXPECT_LT(result.elapsed, kPromptly);
  }
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  source().exec("select pg_switch_wal()");
  const auto waited = run("wait", {"--for", "caught-up", "--timeout", "10s"});
  EXPECT_EQ(waited.code, 0) << waited;
  EXPECT_LT(waited.elapsed, kPromptly);
  stop_follower(follower);
}

// The commands that end a replica leave a plain database behind, and can be repeated.
TEST_F(StreamTest, FinishLeavesNothing) {
  clone_simple();
  source().exec("insert into t values (2, 'two')");
  const auto finished = run("finish");
  EXPECT_EQ(finished.code, 0) << finished;
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
  expect_equal({.sequences = true});
  const auto again = run("finish");
  EXPECT_EQ(again.code, 0) << again;
}

TEST_F(StreamTest, DropLeavesUserTables) {
  clone_simple();
  const auto dropped = run("drop");
  EXPECT_EQ(dropped.code, 0) << dropped;
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
  EXPECT_EQ(target().number("select count(*) from t"), 1);
  const auto status = run("status", {"--json"});
  EXPECT_EQ(status.code, 0) << status;
  EXPECT_EQ(status_field("phase"), "none");
}

TEST_F(StreamTest, StatusNamesWhatScriptsRelyOn) {
  clone_simple();
  const auto status = run("status", {"--json"});
  EXPECT_EQ(status.code, 0) << status;
  for (const auto* path :
       {"name", "phase", "ready", "generation", "slot.name", "slot.active", "slot.wal_status", "slot.wal_held_bytes",
        "lsn.source_flush", "lsn.received", "lsn.applied", "lsn.durable", "lsn.confirmed", "lag.bytes", "lag.seconds",
        "copy.tables_done", "copy.tables_total", "tables"}) {
    EXPECT_NE(status_field(path), "") << path << " in " << status.out;
  }
  EXPECT_EQ(status_field("ready"), "true");
  EXPECT_EQ(status_field("slot.name"), "pgbaton");
}

}  // namespace
}  // namespace pgbaton::testing
