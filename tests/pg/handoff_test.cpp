// The handoff under writers: no gap, no overlap, whole transactions (DESIGN 3, G1).
#include <random>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HandoffTest : public PairTest {};

// Each turn commits one row of a keyed table and the same number into a keyless one, and changes older rows at random.
Load::Work numbers_and_updates(Milliseconds pause = Milliseconds(0)) {
  return [pause](Load::Turn& turn) {
    std::this_thread::sleep_for(pause);
    const auto id = std::to_string(turn.thread * 100'000'000LL + turn.round);
    const auto older = std::to_string(turn.thread * 100'000'000LL + (turn.round * 7919) % (turn.round + 1));
    turn.session.exec("begin; insert into numbers values (" + id + "); insert into keyless values (" + id +
                      "); update numbers set n = n + 1 where id = " + older + "; commit");
  };
}

TEST_F(HandoffTest, S01_WritersDuringSlotCreationAndCopy) {
  source().exec(
      "create table numbers (id bigint primary key, n int not null default 0); create table keyless (id bigint)");
  create_filled("filler", 30'000);
  Load load(source().conninfo(), 6, numbers_and_updates());
  ASSERT_TRUE(load.wait_done(200));
  auto clone = start("clone", {"--until", "caught-up", "--max-rate", "3MB"});
  const auto result = clone.wait();
  ASSERT_EQ(result.code, 0) << result;
  const auto at_end_of_clone = load.done();
  ASSERT_TRUE(load.wait_done(at_end_of_clone + 200));
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  expect_equal_after_drain();
  EXPECT_EQ(target().number("select count(*) - count(distinct id) from keyless"), 0);
  EXPECT_EQ(target().number("select count(*) from keyless"), load.done());
}

// The narrow window is met often, not once: small clones one after another into databases of their own.
TEST_F(HandoffTest, S01_ManySmallHandoffsUnderLoad) {
  source().exec(
      "create table numbers (id bigint primary key, n int not null default 0); create table keyless (id bigint)");
  // Slowed down, so that the streams of all replicas keep up; what counts is that a commit is always under way.
  Load load(source().conninfo(), 6, numbers_and_updates(Milliseconds(10)));
  ASSERT_TRUE(load.wait_done(50));
  const int rounds = 5;
  for (int i = 0; i < rounds; ++i) {
    const auto name = "r" + std::to_string(i);
    target().exec("create database " + name);
    const auto result = Tool::run({"clone", "--source", source().conninfo(), "--target", target().conninfo(name),
                                   "--name", name, "--until", "caught-up"});
    ASSERT_EQ(result.code, 0) << result;
  }
  load.stop();
  for (int i = 0; i < rounds; ++i) {
    const auto name = "r" + std::to_string(i);
    const auto result = Tool::run({"follow", "--source", source().conninfo(), "--target", target().conninfo(name),
                                   "--name", name, "--until", "caught-up"});
    ASSERT_EQ(result.code, 0) << result;
    EXPECT_THAT(differences(source().conninfo(), target().conninfo(name)), IsEmpty());
    EXPECT_EQ(target().number("select count(*) - count(distinct id) from keyless", name), 0);
  }
}

TEST_F(HandoffTest, S02_LongTransactionsStayWhole) {
  source().exec("create table work (id bigserial primary key, tx text not null, part int not null)");
  Load load(source().conninfo(), 8, [](Load::Turn& turn) {
    const auto tx = "'" + std::to_string(turn.thread) + "/" + std::to_string(turn.round) + "'";
    turn.session.exec("begin; insert into work (tx, part) values (" + tx + ", 1)");
    std::this_thread::sleep_for(Milliseconds(900 + 20 * turn.thread));
    turn.session.exec("insert into work (tx, part) values (" + tx + ", 2); commit");
  });
  ASSERT_TRUE(load.wait_done(4));
  const auto copied = run("clone");
  ASSERT_EQ(copied.code, 0) << copied;
  const std::string torn = "select count(*) from (select from work group by tx having count(*) <> 2) s";
  EXPECT_EQ(target().number(torn), 0) << "the copy itself holds parts of transactions";
  EXPECT_GT(target().number("select count(*) from work"), 0);
  const auto caught_up = run("follow", {"--until", "caught-up"});
  ASSERT_EQ(caught_up.code, 0) << caught_up;
  EXPECT_EQ(target().number(torn), 0);
  load.stop();
  expect_equal_after_drain();
  EXPECT_EQ(target().number(torn), 0);
}

TEST_F(HandoffTest, S03_InterleavedTransactions) {
  source().exec("create table t (id bigint primary key, who text)");
  Pgbench::initialize(source().conninfo(), 1);
  create_marker();
  clone_until_caught_up();
  auto follower = start("follow");
  auto a = source().session(), b = source().session();
  a.exec("begin; insert into t values (1, 'a')");
  b.exec("begin; insert into t values (2, 'b'); commit");
  a.exec("commit");

  std::mt19937 random(3);
  std::vector<Session> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(source().session());
  for (long long round = 1; round <= 50; ++round) {
    std::vector<int> order;  // each session: begin and insert, insert, end
    for (int i = 0; i < 12; ++i) order.push_back(i % 4);
    std::shuffle(order.begin(), order.end(), random);
    int step[4] = {0, 0, 0, 0};
    for (const int s : order) {
      auto& session = sessions[static_cast<std::size_t>(s)];
      const auto id = std::to_string(round * 100 + s * 10 + step[s]);
      const auto insert = "insert into t values (" + id + ", 's" + std::to_string(s) + "')";
      if (step[s] == 0) session.exec("begin; " + insert);
      if (step[s] == 1) session.exec(insert);
      if (step[s] == 2) session.exec(random() % 5 == 0 ? "rollback" : "commit");
      ++step[s];
    }
  }
  Pgbench bench(source().conninfo(), {"-c", "8", "-t", "200"});
  bench.wait();
  const auto last = source().scalar("select pg_current_wal_flush_lsn()");
  EXPECT_TRUE(marker_arrives());
  stop_follower(follower);
  expect_equal();
  EXPECT_EQ(source().scalar("select '" + status_field("lsn.applied") + "'::pg_lsn >= '" + last + "'"), "t")
      << "progress " << status_field("lsn.applied") << " must have reached the last end LSN " << last;
  EXPECT_EQ(source().scalar("select confirmed_flush_lsn >= '" + last + "' from pg_replication_slots"), "t");
}

TEST_F(HandoffTest, S04_OpenTransactionIsNamed) {
  source().exec("create table t (id int primary key)");
  auto blocker = source().session();
  blocker.exec("begin; insert into t values (1)");
  const auto result = run("clone", {"--slot-wait", "3s"});
  EXPECT_EQ(result.code, 5) << result;
  EXPECT_THAT(result.err, HasSubstr(std::to_string(blocker.backend_pid()))) << "the blocker's pid";
  EXPECT_THAT(result.err, HasSubstr("insert into t values (1)")) << "its query";
  EXPECT_GE(result.elapsed.count(), 2'500);
  EXPECT_LE(result.elapsed.count(), 9'000);
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
  blocker.exec("commit");
  clone_until_caught_up();
  expect_equal();
}

TEST_F(HandoffTest, S04_PreparedTransactionIsNamed) {
  source().exec("create table t (id int primary key)");
  source().exec("begin; insert into t values (1); prepare transaction 'gid of somebody'");
  const auto result = run("clone", {"--slot-wait", "3s"});
  EXPECT_EQ(result.code, 5) << result;
  EXPECT_THAT(result.err, HasSubstr("gid of somebody"));
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
  source().exec("commit prepared 'gid of somebody'");
  clone_until_caught_up();
  expect_equal();
}

TEST_F(HandoffTest, S04_SignalWhileWaitingLeavesNothing) {
  source().exec("create table t (id int primary key)");
  auto blocker = source().session();
  blocker.exec("begin; insert into t values (1)");
  auto clone = start("clone");
  ASSERT_TRUE(source().wait_until(
      "select count(*) > 0 from pg_stat_activity where backend_type = 'walsender' and wait_event_type = 'Lock'", "t"))
      << clone.err();
  clone.kill(SIGINT);
  const auto result = clone.wait(Milliseconds(10'000));
  EXPECT_EQ(result.code, 1) << result;
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

TEST_F(HandoffTest, S08_ExportingBackendKilledAfterImport) {
  create_filled("big", 40'000);
  source().exec("create table small (id int primary key); insert into small select generate_series(1, 100)");
  Load load(source().conninfo(), 2, "update big set n = n + 1 where id = 1 + (random() * 39999)::int");
  ASSERT_TRUE(load.wait_done(20));
  auto clone = start("clone", {"--until", "caught-up", "--jobs", "1", "--max-rate", "2MB"});
  ASSERT_TRUE(wait_copying("big")) << clone.err();
  EXPECT_GE(source().number("select count(pg_terminate_backend(pid)) from pg_stat_activity where backend_type = "
                            "'walsender' and application_name like 'pgbaton%'"),
            1);
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 0) << result;
  load.stop();
  expect_equal_after_drain();
}

// Transactions with 400 savepoints that are open while younger ones commit overflow the list of a slot's first snapshot
// (SQLSTATE 40001). Thread 0 is the one with the small commits.
Load::Work many_savepoints() {
  return [](Load::Turn& turn) {
    if (turn.thread == 0) {
      turn.session.exec("insert into u values (1)");
      return;
    }
    const auto id = std::to_string(turn.thread * 1'000'000LL + turn.round);
    turn.session.exec(
        "do $$ begin for i in 1..400 loop begin insert into t values (" + id +
        "::bigint * 1000 + i); exception when unique_violation then null; end; end loop; perform pg_sleep(0.4); "
        "end $$");
  };
}

TEST_F(HandoffTest, S57_TooLargeSnapshotIsRetried) {
  source().exec("create table t (id bigint primary key); create table u (id int)");
  auto load = std::make_unique<Load>(source().conninfo(), 7, many_savepoints());
  ASSERT_TRUE(source().wait_until("select count(distinct id / 1000000000) from t", "6"));
  auto clone = start("clone", {"--until", "caught-up", "--log-level", "debug"});
  std::this_thread::sleep_for(Milliseconds(5'000));
  load->stop();
  EXPECT_THAT(load->errors(), IsEmpty());
  const auto result = clone.wait();
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.err, HasSubstr("savepoints; trying again")) << "the writers did not bring it about";
  expect_equal_after_drain();
}

TEST_F(HandoffTest, S57_TooLargeSnapshotIsNamedInTheEnd) {
  source().exec("create table t (id bigint primary key); create table u (id int)");
  Load load(source().conninfo(), 7, many_savepoints());
  ASSERT_TRUE(source().wait_until("select count(distinct id / 1000000000) from t", "6"));
  const auto result = run("clone", {"--slot-wait", "4s"});
  EXPECT_EQ(result.code, 5) << result;
  load.stop();
  EXPECT_THAT(result.err, HasSubstr("savepoint")) << result;
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::testing
