// A server, a connection or a reply is away for a while, and the tool goes on by itself.
#include <signal.h>

#include "faults.hpp"
#include "support/pair.hpp"
#include "support/proxy.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OutageTest : public PairTest {
 protected:
  // log has no key: a transaction that is applied twice shows as doubled rows.
  void create_tables() {
    source().exec(
        "create table t (id bigint primary key, n int not null); insert into t select i, 0 from generate_series(1, "
        "100) i; "
        "create table log (who int, round bigint)");
    create_marker();
  }
  static Load::Work writer() {
    return [](Load::Turn& turn) {
      turn.session.exec("begin; update t set n = n + 1 where id = 1 + (random() * 99)::int; insert into log values (" +
                        std::to_string(turn.thread) + ", " + std::to_string(turn.round) + "); commit");
      std::this_thread::sleep_for(Milliseconds(2));
    };
  }
  std::string confirmed() {
    return source().scalar("select confirmed_flush_lsn from pg_replication_slots where slot_name = 'pgbaton'");
  }
};

TEST_F(OutageTest, LostReplyToCommitIsDecidedByTheProgressRow) {
  create_tables();
  clone_until_caught_up();
  Proxy proxy({target().port()});
  Load load(source().conninfo(), 2, writer());
  Tool follower({"follow", "--source", source().conninfo(), "--target", proxy.conninfo()});
  ASSERT_TRUE(marker_arrives()) << follower.err();
  for (const auto fate : {CommitFate::reply_lost, CommitFate::late, CommitFate::lost, CommitFate::late}) {
    proxy.take_next_commit(fate);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!proxy.commit_taken() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(Milliseconds(5));
    ASSERT_TRUE(proxy.commit_taken());
    std::this_thread::sleep_for(Milliseconds(fate == CommitFate::late ? 2'500 : 0));
    EXPECT_TRUE(marker_arrives()) << follower.err();
  }
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  EXPECT_TRUE(marker_arrives());
  stop_follower(follower);
  EXPECT_THAT(follower.err(), HasSubstr("connected again"));
  EXPECT_EQ(target().number("select count(*) - count(distinct (who, round)) from log"), 0) << "applied twice";
  expect_equal_after_drain();
}

TEST_F(OutageTest, S15_TargetIsAwayForAWhile) {
  create_tables();
  clone_until_caught_up();
  Load load(source().conninfo(), 3, writer());
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  target().stop(StopMode::immediate);
  std::this_thread::sleep_for(Milliseconds(4'000));
  const auto confirmed_before = confirmed();
  target().start();
  EXPECT_EQ(target().scalar("select applied_lsn >= '" + confirmed_before + "' from pgbaton.progress"), "t")
      << "something was confirmed that is not durable";
  EXPECT_TRUE(marker_arrives(Milliseconds(60'000))) << follower.err();
  load.stop();
  EXPECT_TRUE(marker_arrives());
  stop_follower(follower);
  EXPECT_THAT(follower.err(), ::testing::ContainsRegex("the stream stands still since ..:..:.. UTC .*(target|lost)"));
  EXPECT_THAT(follower.err(), HasSubstr("connected again, after"));
  expect_equal_after_drain();
}

TEST_F(OutageTest, S16_SourceIsAwayForAWhileWhileStreaming) {
  create_tables();
  clone_until_caught_up();
  source().exec("insert into t select i, 1 from generate_series(1001, 1500) i");
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  source().exec("insert into log values (7, 7)");
  source().stop(StopMode::immediate);
  std::this_thread::sleep_for(Milliseconds(4'000));
  source().start();
  source().exec("insert into log values (7, 8)");
  EXPECT_TRUE(marker_arrives(Milliseconds(60'000))) << follower.err();
  stop_follower(follower);
  EXPECT_THAT(follower.err(), HasSubstr("connected again, after"));
  expect_equal_after_drain();
  EXPECT_EQ(target().number("select count(*) from log"), 2);
}

TEST_F(OutageTest, S16_ServersRestartDuringTheCopy) {
  create_filled("big", 20'000, 400);
  create_filled("small", 100);
  create_tables();
  auto clone = start("clone", {"--until", "caught-up", "--max-rate", "3MB", "--jobs", "1"});
  ASSERT_TRUE(wait_copying("big", 1'000)) << clone.err();
  source().restart(StopMode::fast);
  source().exec("update big set n = 5 where id % 10 = 0; insert into t values (5000, 5)");
  ASSERT_TRUE(clone.wait_for_stderr("new boundary")) << clone.err();
  ASSERT_TRUE(wait_copying("big", 1'000)) << clone.err();
  target().restart(StopMode::immediate);
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.err, Not(HasSubstr("ERROR")));
  expect_equal_after_drain();
}

TEST_F(OutageTest, S07_OneCopyBackendIsEndedAtHalf) {
  // More than fits into the buffers of a Unix socket (those of TCP grow to dozens of MB): at the half its backend has
  // not sent everything.
  source().exec(
      "create table big (id int primary key, n int, pad text); insert into big select i, 0, repeat(md5(i::text), 50) "
      "from generate_series(1, 30000) i");
  create_filled("other", 500, 400);
  // Stands still at the half of every table, also when it copies one again.
  Tool clone({"clone", "--source", source().socket_conninfo(), "--target", target().conninfo(), "--until", "caught-up",
              "--jobs", "1"},
             {{"PGBATON_FAILPOINTS", "copy_table_half=freeze"}});
  for (Cluster* server : {&source(), &target()}) {
    SCOPED_TRACE(server == &source() ? "source" : "target");
    ASSERT_TRUE(wait_frozen(clone)) << clone.err();
    EXPECT_EQ(target().scalar("select phase from pgbaton.table_state where table_name = 'big'"), "pending")
        << "marked done early";
    source().exec("update big set n = n + 1 where id % 50 = 0");
    EXPECT_EQ(server->number("select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name "
                             "like 'pgbaton/%/copy-_' and query ilike 'copy %big%'"),
              1);
    clone.kill(SIGCONT);
  }
  while (wait_frozen(clone)) clone.kill(SIGCONT);
  const auto result = clone.wait();
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.err, ::testing::ContainsRegex("trying again .2 of(.|\n)*trying again .3 of"));
  EXPECT_EQ(
      target().number("select count(*) filter (where t.boundary <> r.consistent_point) from pgbaton.table_state t, "
                      "pgbaton.replica r"),
      0)
      << "the same snapshot for all";
  expect_equal_after_drain();
}

TEST_F(OutageTest, S09_HolderIsEndedDuringTheCopy) {
  create_filled("big", 20'000, 400);
  create_filled("first", 100);
  Load load(source().conninfo(), 1, "update first set n = n + 1 where id = 1 + (random() * 99)::int");
  const Arguments slow{"--until", "caught-up", "--max-rate", "1500kB", "--jobs", "1"};
  auto clone = start("clone", slow);
  for (int deaths = 1; deaths <= 3; ++deaths) {
    ASSERT_TRUE(wait_copying("big", 200)) << clone.err();
    source().exec(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ "
        "'^pgbaton/.*/(holder|copy-.*)$'");
    if (deaths < 3) {
      ASSERT_TRUE(clone.wait_for_stderr("(new boundary[\\s\\S]*){" + std::to_string(deaths) + "}")) << clone.err();
    }
  }
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr("the session that holds the snapshot died 3 times"));
  EXPECT_THAT(result.err, HasSubstr("HINT: "));
  EXPECT_EQ(status_field("phase"), "copying");
  const auto again = run("clone", {"--until", "caught-up"});
  EXPECT_EQ(again.code, 0) << again;
  load.stop();
  expect_equal_after_drain();
}

TEST_F(OutageTest, S14_HugeTransactionKilledFiveTimes) {
  create_tables();
  clone_until_caught_up();
  source().exec(
      "begin; insert into t select i, 0 from generate_series(1001, 101000) i; select pg_switch_wal(); "
      "insert into t select i, 0 from generate_series(101001, 201000) i; commit");
  for (const char* point : {"stream_connected=kill", "apply_window_written=kill", "apply_window_written=kill@2",
                            "apply_before_commit=kill", "apply_window_written=kill@4"}) {
    const auto follower = run("follow", {"--until", "caught-up"}, {{"PGBATON_FAILPOINTS", point}});
    EXPECT_EQ(follower.code, 137) << point << ": " << follower;
    EXPECT_EQ(target().number("select count(*) from t where id > 1000"), 0)
        << point << ": a part of a transaction shows";
  }
  expect_equal_after_drain();
  EXPECT_EQ(target().number("select count(*) from t where id > 1000"), 200'000);
}

TEST_F(OutageTest, S24_PreparedTransactionsAcrossARestart) {
  create_tables();
  clone_until_caught_up();
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  source().exec("begin; insert into log values (24, 1); update t set n = 24 where id = 1; prepare transaction 'kept'");
  source().exec(
      "begin; insert into log values (24, 2); update t set n = 25 where id = 2; prepare transaction 'undone'");
  ASSERT_TRUE(marker_arrives());
  follower.kill_hard();
  auto second = start("follow");
  ASSERT_TRUE(marker_arrives());
  EXPECT_EQ(target().number("select count(*) from log where who = 24"), 0) << "only prepared";
  source().exec("commit prepared 'kept'");
  source().exec("rollback prepared 'undone'");
  ASSERT_TRUE(marker_arrives());
  EXPECT_EQ(target().scalar("select string_agg(round::text, ',') from log where who = 24"), "1");
  stop_follower(second);
  expect_equal_after_drain();
}

TEST_F(OutageTest, S22_TwoStartsAtOnceAndALeaseThatIsFreeAtOnce) {
  create_tables();
  clone_until_caught_up();
  auto one = start("follow"), two = start("follow");
  Tool* winner = nullptr;
  for (int i = 0; i < 600 && winner == nullptr; ++i) {
    std::this_thread::sleep_for(Milliseconds(50));
    if (!one.running()) winner = &two;
    if (!two.running()) winner = &one;
  }
  ASSERT_NE(winner, nullptr) << "both run";
  const auto loser = (winner == &one ? two : one).wait();
  EXPECT_EQ(loser.code, 7) << loser;
  EXPECT_TRUE(marker_arrives()) << winner->err();
  winner->kill_hard();
  const auto started = std::chrono::steady_clock::now();
  auto next = start("follow");
  EXPECT_TRUE(next.wait_for_stderr("streaming from slot")) << next.err();
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(4)) << "the lease was not free";
  EXPECT_TRUE(marker_arrives());
  stop_follower(next);
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
