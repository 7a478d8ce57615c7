// What the slots hold on the source: seen, warned of, and bounded (S20, S21). With slots, sizes and rates of real
// servers. That a slot which the server gave up is named is in tests/fault/timeline_test.cpp.
#include <thread>

#include "pg/check_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WalBudgetTest : public PairTest {
 protected:
  void a_copy_is_stopped();
  void every_slot_counts();
  void the_slot_is_dropped();
  void a_stream_is_warned();

  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table t (id int primary key, v text); insert into t values (1, 'a'); create table noise (v text); "
        "create table s20 (id bigint generated always as identity primary key)");
  }
  // WAL without a row for the stream: noise is not published.
  void write_wal(int megabytes) {
    for (int i = 0; i < megabytes; ++i)
      source().exec("insert into noise select string_agg(md5(random()::text), '') from generate_series(1, 32768)");
  }
  Json status(const Arguments& more = {}) {
    Arguments all{"--json"};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = run("status", all);
    EXPECT_EQ(result.code, 0) << result;
    return Json::parse(result.out);
  }
  std::string slots() {
    return source().scalar("select count(*) from pg_replication_slots where database = current_database()");
  }
  // Writes until a condition holds; false when it never does.
  template <typename Done>
  bool write_until(Done done, Milliseconds pause, int at_most = 300) {
    for (int i = 0; i < at_most; ++i) {
      if (done()) return true;
      write_wal(1);
      std::this_thread::sleep_for(pause);
    }
    return done();
  }
  // S20: 20 connections commit single rows as fast as they can; the lag stays small and is gone soon after.
  void many_single_row_commits() {
    const char* given = std::getenv("PGBATON_S20_SECONDS");
    const auto seconds = std::chrono::seconds(given != nullptr ? std::atoi(given) : 3);
    long long worst = 0;
    {
      Load load(source().conninfo(), 20, "insert into s20 default values");
      const auto end = std::chrono::steady_clock::now() + seconds;
      while (std::chrono::steady_clock::now() < end) {
        const auto lag = status_field("lag.bytes");
        if (!lag.empty() && lag != "null") worst = std::max(worst, std::atoll(lag.c_str()));
      }
      load.stop();
      EXPECT_GT(load.done(), 20);
      std::cout << load.done() << " commits in " << seconds.count() << " s, at most " << worst << " bytes behind\n";
    }
    EXPECT_LT(worst, 64LL << 20);
    const auto wait = run("wait", {"--for", "caught-up", "--timeout", "60s"});
    EXPECT_EQ(wait.code, 0) << wait;
  }
};

// The copy is slowed down, so that the source writes more than the budget meanwhile.
void WalBudgetTest::a_copy_is_stopped() {
  create_filled("big", 8000, 1000);
  auto clone =
      start("clone", {"--exclude-table", "noise", "--max-rate", "200kB", "--wal-budget", "24MB", "--jobs", "2"});
  ASSERT_TRUE(wait_copying("big"));
  // Told while there is room.
  ASSERT_TRUE(write_until([&] { return clone.err().find("will not be complete inside") != std::string::npos; },
                          Milliseconds(300)));
  Json seen;
  ASSERT_TRUE(write_until(
      [&] {
        seen = status({"--wal-budget", "24MB"});
        return seen.at("warnings").dump().find("will not be complete inside") != std::string::npos;
      },
      Milliseconds(100), 30))
      << seen.dump();
  EXPECT_GT(seen.at("wal").at("projected_bytes"), 24 << 20) << seen.at("wal");
  EXPECT_LT(seen.at("wal").at("used_percent"), 100);
  EXPECT_GE(seen.at("wal").at("xmin_age_transactions"), 1);
  EXPECT_TRUE(write_until([&] { return !clone.running(); }, Milliseconds(30)));
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("% of the WAL budget is used"), HasSubstr("and a snapshot for"),
                                HasSubstr("more than --wal-budget 24 MB: stopped"), HasSubstr("larger --wal-budget")))
      << result;
  EXPECT_EQ(slots(), "1");
  EXPECT_GE(target().number("select count(*) from pgbaton.event where kind = 'wal_budget'"), 2);
  EXPECT_THAT(status().at("last_error").dump(), HasSubstr("--wal-budget"));
  // The same command with room goes on.
  const auto again = run("clone", {"--exclude-table", "noise", "--until", "caught-up"});
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_TRUE(status().at("wal").at("limit_bytes").is_null()) << "no limit of anybody's";
}

// Against the smaller limit.
void WalBudgetTest::every_slot_counts() {
  // A copy of the slot as the reader makes one, and a temporary one of a cut; another replica's is not ours.
  auto session = source().session();
  session.exec("select pg_copy_logical_replication_slot('pgbaton', 'pgbaton__read', true)");
  session.exec("select pg_create_logical_replication_slot('pgbaton__tmp_1', 'pgoutput', true)");
  source().exec("select pg_create_logical_replication_slot('pgbaton_other', 'pgoutput')");
  // The way back of another replica, switched over to this server; it stays when ours are dropped.
  source().exec("create database others");
  source().session("others").exec("select pg_create_logical_replication_slot('pgbaton__back', 'pgoutput')");
  write_wal(3);
  source().exec("alter system set max_slot_wal_keep_size = '1GB'");
  source().reload();
  ASSERT_TRUE(source().wait_until("show max_slot_wal_keep_size", "1GB"));
  const auto document = status({"--wal-budget", "4MB"});
  const auto& seen = document.at("wal");
  EXPECT_EQ(seen.at("limit"), "--wal-budget");
  EXPECT_EQ(seen.at("limit_bytes"), 4 << 20);
  EXPECT_EQ(seen.at("slots").size(), 3u) << seen;
  EXPECT_GE(seen.at("held_bytes"), 3'000'000);
  EXPECT_EQ(seen.at("slots")[1].at("temporary"), true) << seen;
  EXPECT_THAT(document.at("warnings").dump(), HasSubstr("% of the WAL budget is used"));
  const auto servers = status();
  EXPECT_EQ(servers.at("wal").at("limit"), "max_slot_wal_keep_size");
  EXPECT_THAT(servers.at("warnings").dump(), Not(HasSubstr("WAL budget")));
  source().exec("select pg_drop_replication_slot('pgbaton_other')");
}

// The stream is in the way itself, because a table of the target is locked: the slot goes without waiting for that.
void WalBudgetTest::the_slot_is_dropped() {
  const auto budget = status().at("wal").at("held_bytes").get<long long>() / 1024 + 8192;
  auto locker = target().session();
  locker.exec("begin; lock table t");
  auto follower =
      start("follow", {"--wal-budget", std::to_string(budget) + "kB", "--wal-policy", "drop", "--reader", "peek"});
  source().exec("update t set v = 'b'");
  EXPECT_TRUE(write_until([&] { return slots() == "0"; }, Milliseconds(100))) << follower.err();
  locker.exec("rollback");
  const auto result = follower.wait();
  EXPECT_EQ(result.code, 4) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("% of the WAL budget is used"), HasSubstr("dropped pgbaton"),
                                HasSubstr("clone --restart")));
  EXPECT_EQ(run("follow", {"--until", "caught-up"}).code, 4);
  const auto anew = run("clone", {"--exclude-table", "noise", "--restart", "--until", "caught-up"});
  EXPECT_EQ(anew.code, 0) << anew;
}

// A warning only, when that is wanted. The same follower then sees more commits than one connection makes.
void WalBudgetTest::a_stream_is_warned() {
  auto locker = target().session();
  auto warned = start("follow", {"--wal-budget", "2MB", "--wal-policy", "warn"});
  ASSERT_TRUE(warned.wait_for_stderr("streaming from slot"));
  locker.exec("begin; lock table t");
  source().exec("update t set v = 'c'");
  EXPECT_TRUE(write_until([&] { return warned.err().find("% of the WAL budget is used") != std::string::npos; },
                          Milliseconds(300)));
  write_wal(2);
  locker.exec("rollback");
  EXPECT_EQ(run("wait", {"--for", "caught-up", "--timeout", "60s"}).code, 0);
  many_single_row_commits();
  stop_follower(warned);
  expect_equal_after_drain({.exclude = {"public.noise"}});
}

TEST_F(WalBudgetTest, S20_ToldEarlyStoppedDroppedOrWarnedAsThePolicySays) {
  a_copy_is_stopped();
  every_slot_counts();
  the_slot_is_dropped();
  a_stream_is_warned();
}

}  // namespace
}  // namespace pgbaton::testing
