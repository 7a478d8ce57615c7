// Reading by SQL in many small steps (failpoint peek_small_steps), and what dies there.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "faults.hpp"
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// log has no key: a transaction that is applied twice shows as doubled rows, in `differences` and here.
class PeekFaults : public PairTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"wal_sender_timeout", "10s"}}}; }
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table t (id bigint primary key, n int not null, pad text); insert into t select i, 0, "
        "repeat(md5(i::text), "
        "10) from generate_series(1, 2000) i; create table log (round bigint, i int)");
    create_marker();
    clone_until_caught_up();
  }
  // A few MB of WAL in 60 transactions.
  void burst() {
    source().exec(
        "create or replace procedure burst(round bigint) language plpgsql as $$ begin for i in 1 .. 60 loop "
        "update t set n = n + 1, pad = repeat(md5(random()::text), 10) where id <= 2000 and id % 20 = i % 20; insert "
        "into log "
        "values (round, i); delete from t where id = 100000 + i - 2; insert into t values (100000 + i, 0, 'new') "
        "on conflict (id) do update set n = t.n + 1; commit; end loop; end $$");
    source().exec("call burst(" + std::to_string(++rounds_) + ")");
  }
  static Environment small(const std::string& more = "") {
    return {{"PGBATON_FAILPOINTS", "peek_small_steps=on" + (more.empty() ? "" : "," + more)}};
  }
  Tool follow(const std::string& reader, const std::string& failpoint = "", const Arguments& more = {}) {
    Arguments all{"--reader", reader, "--memory", "1MB", "--log-level", "debug"};
    all.insert(all.end(), more.begin(), more.end());
    return start("follow", all, small(failpoint));
  }
  void drain(const std::string& reader) {
    const auto result = run("follow", {"--reader", reader, "--until", "caught-up", "--memory", "1MB"}, small());
    EXPECT_EQ(result.code, 0) << result;
  }
  void expect_all_once() {
    expect_equal();
    EXPECT_EQ(target().number("select count(*) - count(distinct (round, i)) from log"), 0) << "applied twice";
    EXPECT_EQ(target().number("select count(*) from log"), 60 * rounds_);
  }
  // The applier stands still, the queue fills, and the reader is left behind.
  void fall_behind() {
    auto lock = target().session();
    lock.exec("begin; lock table t in share mode");
    for (int i = 0; i < 4; ++i) burst();
    std::this_thread::sleep_for(Milliseconds(1'500));  // the housekeeper looks at the source every second
    lock.exec("commit");
  }
  long long rounds_ = 0;
};

TEST_F(PeekFaults, KilledAtEveryStepOfTheTwoSlots) {
  struct Row {
    const char *reader, *point;
    bool falls_behind = false;
  };
  for (const Row& row : {Row{"peek", "read_slot_before_copy=kill"}, Row{"peek", "read_slot_copied=kill"},
                         Row{"peek", "peek_begun=kill@2"}, Row{"peek", "peek_step_read=kill@3"},
                         Row{"peek", "read_slot_advanced=kill@2"}, Row{"peek", "slot_before_advance=kill@2"},
                         Row{"peek", "slot_advanced=kill@2"}, Row{"auto", "slot_advanced=kill"},
                         Row{"auto", "reader_before_stream=kill"}, Row{"auto", "reader_streams=kill"},
                         Row{"auto", "reader_before_peek=kill", true}, Row{"auto", "reader_peeks=kill", true},
                         Row{"auto", "read_slot_copied=kill@2", true}}) {
    SCOPED_TRACE(std::string(row.reader) + " " + row.point);
    burst();
    auto follower = follow(row.reader, row.point);
    if (row.falls_behind) {
      EXPECT_TRUE(marker_arrives()) << follower.err();
      fall_behind();
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (follower.running() && std::chrono::steady_clock::now() < deadline) {
      source().exec("insert into marker default values");
      std::this_thread::sleep_for(Milliseconds(50));
    }
    const auto result = follower.running() ? follower.kill_hard() : follower.wait();
    EXPECT_EQ(result.code, 137) << "the failpoint was not met: " << result;
    EXPECT_TRUE(source().wait_until("select count(*) from pg_replication_slots where slot_name <> 'pgbaton'", "0"))
        << "the second slot outlives its session";
    EXPECT_EQ(
        source().scalar("select r.confirmed_flush_lsn <= '" +
                        target().scalar("select applied_lsn from pgbaton.progress") + "' from pg_replication_slots r"),
        "t")
        << "something was confirmed that is not durable";
  }
  drain("auto");
  expect_all_once();
}

TEST_F(PeekFaults, SourceCrashesAndPassingErrorsAtTheSteps) {
  for (const auto& [reader, point] : std::vector<std::pair<std::string, std::string>>{{"peek", "read_slot_copied"},
                                                                                      {"peek", "peek_step_read=@2"},
                                                                                      {"peek", "slot_advanced"},
                                                                                      {"auto", "reader_streams"}}) {
    SCOPED_TRACE(reader + " " + point);
    const auto name = point.substr(0, point.find('='));
    burst();
    auto follower = follow(reader, name + "=freeze@1");
    ASSERT_TRUE(wait_frozen(follower)) << follower.err();
    source().crash();
    source().start();
    burst();
    follower.kill(SIGCONT);
    EXPECT_TRUE(marker_arrives(Milliseconds(60'000))) << follower.err();
    stop_follower(follower);
    expect_all_once();
  }
  for (const auto& [reader, point] : std::vector<std::pair<std::string, std::string>>{{"peek", "read_slot_before_copy"},
                                                                                      {"peek", "peek_begun"},
                                                                                      {"peek", "read_slot_advanced"},
                                                                                      {"peek", "slot_before_advance"},
                                                                                      {"auto", "reader_before_stream"},
                                                                                      {"auto", "reader_streams"}}) {
    SCOPED_TRACE(reader + " " + point + " error");
    burst();
    auto follower = follow(reader, point + "=error@1");
    EXPECT_TRUE(follower.wait_for_stderr("failpoint " + point)) << follower.err();
    EXPECT_TRUE(marker_arrives()) << follower.err();
    stop_follower(follower);
  }
  expect_all_once();
}

TEST_F(PeekFaults, HandsOverInBothDirectionsAsTheLagShrinksAndGrows) {
  for (int i = 0; i < 3; ++i) burst();
  auto follower = follow("auto");
  const std::vector<std::string> there_and_back = {"in large steps by SQL",
                                                   "the walsender of slot \"pgbaton\" goes on"};
  std::vector<std::string> seen = there_and_back;
  ASSERT_TRUE(follower.wait_for_stderr(seen)) << follower.err();
  EXPECT_TRUE(marker_arrives()) << follower.err();
  for (int i = 1; i <= 2; ++i) {
    fall_behind();
    EXPECT_TRUE(follower.running()) << follower.err();
    seen.insert(seen.end(), there_and_back.begin(), there_and_back.end());
    EXPECT_TRUE(follower.wait_for_stderr(seen)) << i << follower.err();
    EXPECT_TRUE(marker_arrives()) << follower.err();
  }
  expect_all_once();
  stop_follower(follower);
  EXPECT_EQ(source().number("select count(*) from pg_replication_slots"), 1);
}

TEST_F(PeekFaults, WhereItCannotPeekTheWalsenderGoesOn) {
  source().exec("alter system set temp_file_limit = '64kB'");
  source().reload();
  source().exec("insert into t select 1000000 + i, 0, 'large' from generate_series(1, 60000) i");
  {
    auto follower = follow("auto");
    EXPECT_TRUE(follower.wait_for_stderr("not in large steps by SQL: .*temporary file size exceeds"));
    EXPECT_TRUE(marker_arrives()) << follower.err();
    stop_follower(follower);
  }
  source().exec("alter system reset temp_file_limit");
  source().reload();
  // One step would read more than its limit again.
  for (int i = 0; i < 4; ++i) burst();
  auto follower = follow("auto", "peek_short_reach=on");
  EXPECT_TRUE(follower.wait_for_stderr("not in large steps by SQL: each step would read again from")) << follower.err();
  EXPECT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
  // Somebody cancels the statement.
  source().exec("insert into t select 2000000 + i, 0, 'large' from generate_series(1, 150000) i");
  auto cancelled = follow("auto");
  EXPECT_TRUE(
      source().wait_until("select count(pg_cancel_backend(pid)) > 0 from pg_stat_activity where query like "
                          "'COPY%peek%' and state = 'active' and application_name like 'pgbaton/%/read'",
                          "t"));
  EXPECT_TRUE(cancelled.wait_for_stderr("not in large steps by SQL: .*user request")) << cancelled.err();
  EXPECT_TRUE(marker_arrives(Milliseconds(60'000))) << cancelled.err();
  stop_follower(cancelled);
  expect_all_once();
}

TEST_F(PeekFaults, CutsPositionsAndTheEndWorkWhileItPeeks) {
  burst();
  auto follower = follow("peek");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  Load load(source().conninfo(), 2, "update t set n = n + 1 where id = 1 + (random() * 1999)::int");
  const auto verify = run("verify", {"--json"});
  load.stop();
  EXPECT_EQ(verify.code, 0) << verify << follower.err();
  EXPECT_TRUE(wait_for("ready"));
  EXPECT_TRUE(wait_for("caught-up"));
  stop_follower(follower);
  // Exactly the transactions up to a position, out of the middle of many.
  source().exec("insert into t values (3000001, 0, '')");
  const auto lsn = source().scalar("select pg_current_wal_flush_lsn()");
  source().exec("insert into t values (3000002, 0, '')");
  burst();
  const auto until = run("follow", {"--reader", "peek", "--until-lsn", lsn}, small());
  EXPECT_EQ(until.code, 0) << until;
  EXPECT_EQ(target().scalar("select string_agg(id::text, ',') from t where id between 3000001 and 3000002"), "3000001");
  // The slot that a killed writer's session still has does not hinder the next one.
  auto stopped = follow("peek");
  EXPECT_TRUE(marker_arrives()) << stopped.err();
  stopped.kill(SIGSTOP);
  auto taker = follow("peek", "", {"--take-over"});
  EXPECT_TRUE(taker.wait_for_stderr("ended backend .*|ending backend .*")) << taker.err();
  EXPECT_TRUE(marker_arrives()) << taker.err();
  stopped.kill_hard();
  stop_follower(taker);
  const auto finish = run("finish", {"--reader", "peek"});
  EXPECT_EQ(finish.code, 0) << finish;
  expect_equal();
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::testing
