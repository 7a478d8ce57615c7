// The runbook on real servers: S44, S50, and a conductor that dies or fails at each of its steps.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

class SwitchoverTest : public PairTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"max_prepared_transactions", "5"}}}; }
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table account (id bigint primary key, n int not null);"
        "create table part (id int, k int, primary key (id, k)) partition by list (k);"
        "create table part_1 partition of part for values in (1); insert into part values (1, 1);"
        "create unlogged table scratch (id int); create table \"Odd \"\"name\" (id int primary key);"
        "create table \"do $fence$ a>>b<<c\" (id int primary key);"
        "create sequence up cache 50; create sequence down increment -5 minvalue -1000000 start -1; create sequence "
        "untouched; select nextval('up'), nextval('down')");
    clone_until_caught_up();
    config_ = make_run_directory("switchover") + "/config.yaml";
    file_ = config_ + ".acknowledged";
  }
  ToolResult switch_over(const std::string& settings, const Arguments& more = {}, const Environment& environment = {}) {
    Arguments all{"--config", write_config(settings)};
    all.insert(all.end(), more.begin(), more.end());
    return run("switchover", all, environment, Milliseconds(120'000));
  }
  std::string write_config(const std::string& settings) {
    std::ofstream(config_) << "switchover:\n  gap: 1000\n" << settings;
    return config_;
  }
  std::string fence_left(Cluster& server) {
    return server.scalar(
        "select count(*) || '/' || (select count(*) from pg_namespace where nspname = 'pgbaton_fence') "
        "from pg_trigger where tgname = 'pgbaton_fence'");
  }
  // The last step before the flip waits for go_on().
  std::string held() {
    return "  hooks:\n    finish: touch " + config_ + ".held; while [ ! -e " + config_ +
           ".go ]; do sleep 0.02; done; rm " + config_ + ".held " + config_ + ".go\n";
  }
  void until_held() {
    for (int i = 0; i < 1200 && !std::ifstream(config_ + ".held"); ++i) std::this_thread::sleep_for(Milliseconds(25));
    ASSERT_TRUE(std::ifstream(config_ + ".held"));
  }
  void go_on() { std::ofstream(config_ + ".go"); }
  bool fence_goes(Cluster& server) {
    return server.wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "0");
  }
  // Killed at a failpoint ("name@2": the second time), one side takes writes and has all that was acknowledged.
  void killed_at(const std::string& point, const Arguments& more, Cluster& writable, Cluster& closed) {
    const auto at = point.find('@');
    const auto killed = switch_over(
        "", more, {{"PGBATON_FAILPOINTS", point.substr(0, at) + "=kill" + (at == point.npos ? "" : point.substr(at))}});
    ASSERT_EQ(killed.code, 128 + SIGKILL) << point << killed;
    expect_only(writable, closed, point);
    EXPECT_EQ(Clients::lost(file_, writable), "") << point;
  }
  // The application finds the target closed, and nothing else says why.
  void expect_status_of_given_up() {
    const auto attempt = target().number("select max(id) from pgbaton.request where kind = 'switchover'");
    const auto fences = Json::parse(run("status", {"--json"}).out).at("fences");
    ASSERT_EQ(fences.size(), 1u) << fences;
    EXPECT_EQ(fences[0].at("side"), "target");
    EXPECT_EQ(fences[0].at("standing"), "given up");
    EXPECT_EQ(fences[0].at("attempt"), attempt);
    const auto text = run("status").out;
    EXPECT_THAT(text, ::testing::ContainsRegex("CLOSED      the target takes no writes but pgbaton's: attempt " +
                                               std::to_string(attempt) +
                                               " \\(.*, pid .* UTC\\) of a switchover was given "
                                               "up .*`pgbaton switchover --undo`"))
        << text;
  }
  static std::string slots(Cluster& server) {
    return server.scalar(
        "select coalesce(string_agg(slot_name, ' ' order by slot_name), '') from pg_replication_slots");
  }
  std::string config_, file_;
};

TEST_F(SwitchoverTest, S50_WritersOfThreeKindsAndNothingAcknowledgedIsLost) {
  auto follower = start("follow");
  Clients clients({source().conninfo(), target().conninfo()}, 3, 100, file_);
  ASSERT_TRUE(clients.wait_acknowledged(100));
  auto slow = source().session();
  slow.exec("begin; insert into account values (-7, 0)");
  auto reader = source().session();
  reader.exec("begin isolation level repeatable read; select count(*) from account");
  source().exec("create table job (id int); insert into job values (1); alter extension plpgsql add table job");
  const auto result = switch_over("  transaction-wait: 1s\n  way-back: no\n", {"--json"});
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_EQ(follower.wait().code, 0);
  EXPECT_ANY_THROW(slow.exec("commit")) << "it was ended, so it cannot be told that it is committed";
  ASSERT_TRUE(clients.wait_acknowledged(50));
  clients.stop();
  const auto report = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(report["result"], "switched over");
  EXPECT_TRUE(report["failed_step"].is_null());
  std::cout << "pause told " << report["pause_ms"] << " ms, longest seen by a client "
            << clients.longest_pause().count() << " ms\n";
  EXPECT_EQ(Clients::lost(file_, target()), "");
  EXPECT_TRUE(takes_writes(target()));
  EXPECT_FALSE(takes_writes(source()));
  EXPECT_THAT(report["findings"].dump(), HasSubstr("belongs to extension"));
  EXPECT_ANY_THROW(source().exec("insert into job values (2)")) << "it is fenced like the application's own";
  EXPECT_EQ(target().number("select count(*) from account where id = -7"), 0);
  for (const auto& refusal : clients.refusals())
    EXPECT_THAT(refusal, HasSubstr("the database is being switched over to another server")) << refusal;
  // S44
  EXPECT_GT(target().number("select nextval('up')"), source().number("select nextval('up')") + 900);
  EXPECT_LT(target().number("select nextval('down')"), source().number("select nextval('down')") - 4500);
  EXPECT_GT(target().number("select nextval('untouched')"), source().number("select nextval('untouched')") + 900);
  // Nothing of ours but the fence of the former source is left.
  EXPECT_EQ(target().number("select count(*) from pg_attribute where attname = '_pgbaton_lsn'"), 0);
  EXPECT_EQ(target().number("select count(*) from pg_namespace where nspname like 'pgbaton%'"), 0);
  EXPECT_EQ(fence_left(target()), "0/0");
  EXPECT_EQ(
      source().number("select (select count(*) from pg_replication_slots) + (select count(*) from pg_publication)"), 0);
  auto again = switch_over("");
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("already switched over"));
  EXPECT_EQ(switch_over("", {"--undo"}).code, 2) << "both sides would take writes";
  EXPECT_FALSE(takes_writes(source()));
  // Writers go on at once, whatever a reader does; the triggers go when it has ended.
  auto opened = start("switchover", {"--config", config_, "--undo", "--force"});
  for (int i = 0; i < 200 && !takes_writes(source()); ++i) std::this_thread::sleep_for(Milliseconds(50));
  EXPECT_TRUE(takes_writes(source()));
  EXPECT_TRUE(opened.running());
  EXPECT_NE(fence_left(source()), "0/0");
  reader.exec("commit");
  EXPECT_EQ(opened.wait().code, 0) << opened.err();
  EXPECT_EQ(fence_left(source()), "0/0");
  EXPECT_NO_THROW(source().exec("insert into job values (2)"));
}

// Before the flip the source takes writes again, from it on the target; the file equals the side that does.
TEST_F(SwitchoverTest, KilledAtEveryStepExactlyOneSideTakesWrites) {
  Clients clients({source().conninfo(), target().conninfo()}, 2, 60, file_);
  for (const std::string point : {"switchover_prepare", "way_back_recorded", "way_back_made", "fence_before_commit",
                                  "switchover_fenced", "switchover_fence", "switchover_barrier", "switchover_verify",
                                  "switchover_finish", "switchover_sealed@2", "switchover_before_flip"}) {
    ASSERT_TRUE(clients.wait_acknowledged(5)) << point;
    killed_at(point, {}, source(), target());
    ASSERT_TRUE(fence_goes(source())) << point;
  }
  expect_status_of_given_up();
  // What was made for the way back keeps no WAL when nobody goes it.
  EXPECT_EQ(slots(target()), "pgbaton__back");
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  EXPECT_EQ(slots(target()), "");
  for (const std::string point : {"switchover_flipped", "switchover_send", "switchover_turn", "guards_dropped"}) {
    killed_at(point, {}, target(), source());
    if (point != "switchover_send") continue;
    const auto follow = run("follow", {"--until", "caught-up"});
    EXPECT_EQ(follow.code, 2) << follow;
    EXPECT_EQ(run("drop").code, 2);
    EXPECT_EQ(switch_over("", {"--rollback"}).code, 2);
  }
  const auto last = switch_over("");
  EXPECT_EQ(last.code, 0) << last;
  EXPECT_THAT(last.out, HasSubstr("switched over"));
  ASSERT_TRUE(clients.wait_acknowledged(5));
  // The same on the way back.
  for (const std::string point : {"switchover_prepare", "switchover_fenced", "switchover_before_flip"}) {
    ASSERT_TRUE(clients.wait_acknowledged(5)) << point;
    killed_at(point, {"--rollback"}, target(), source());
    ASSERT_TRUE(fence_goes(target())) << point;
  }
  for (const std::string point : {"switchover_flipped", "switchover_turn", "guards_dropped"}) {
    killed_at(point, {"--rollback"}, source(), target());
    if (point == "switchover_flipped") {
      EXPECT_EQ(switch_over("").code, 2) << "the rollback has to end first";
    }
  }
  const auto back = switch_over("", {"--rollback"});
  EXPECT_EQ(back.code, 0) << back;
  ASSERT_TRUE(clients.wait_acknowledged(5));
  clients.stop();
  expect_only(source(), target(), "the end");
  expect_equal_after_drain();
  EXPECT_EQ(Clients::lost(file_, source()), "");
}

TEST_F(SwitchoverTest, WhatFailsBeforeTheFlipOpensTheSourceAndNamesTheStep) {
  source().exec("create table marker (id bigint generated always as identity primary key)");
  ASSERT_EQ(run("resync", {"--add", "marker"}).code, 0);
  auto follower = start("clone", {"--follow"});
  ASSERT_TRUE(marker_arrives());
  for (const std::string step : {"fence", "sequences", "before_flip"}) {
    const auto failed = switch_over("", {"--json"}, {{"PGBATON_FAILPOINTS", "switchover_" + step + "=stop"}});
    EXPECT_EQ(failed.code, 1) << failed;
    EXPECT_TRUE(takes_writes(source())) << step;
    EXPECT_FALSE(takes_writes(target())) << step;
    EXPECT_EQ(fence_left(source()), "0/0") << step;
    const auto report = Json::parse(failed.out, nullptr, false);
    EXPECT_EQ(report["failed_step"], step == "before_flip" ? "flip" : step) << failed;
    EXPECT_THAT(failed.err, HasSubstr("ERROR: step ")) << failed;
  }
  EXPECT_TRUE(marker_arrives()) << "the follower goes on by itself" << follower.err();
  stop_follower(follower);
  // A hook that fails, a row that the target has lost, a transaction that is not to be ended.
  const auto hook = switch_over("  hook-fenced: 'echo $PGBATON_FACTS >&2; exit 3'\n");
  EXPECT_EQ(hook.code, 1) << hook;
  EXPECT_THAT(hook.err, HasSubstr("hook-fenced ended with 3: {\"barrier_lsn\"")) << hook;
  EXPECT_TRUE(takes_writes(source()));
  // A hook is ended with all that it has started.
  auto asleep = start("switchover", {"--config", write_config("  hook-fenced: 'sleep 60; true'\n")});
  ASSERT_TRUE(source().wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "1"));
  std::this_thread::sleep_for(Milliseconds(300));
  asleep.kill(SIGINT);
  const auto ended = asleep.wait(Milliseconds(15'000));
  EXPECT_EQ(ended.code, 1) << ended;
  EXPECT_THAT(ended.err, HasSubstr("ERROR: step fence: hook-fenced: interrupted"));
  EXPECT_TRUE(takes_writes(source()));
  // So it is at the deadline, whatever it has left behind.
  const auto given_up = config_ + ".given-up";
  const auto late = switch_over(
      "  deadline: 2s\n  hooks:\n    barrier: 'setsid sleep 20 & sleep 90; true'\n    given-up: 'echo "
      "$PGBATON_STEP >> " +
          given_up + "'\n",
      {"--json"});
  EXPECT_EQ(late.code, 5) << late;
  EXPECT_LT(late.elapsed, Milliseconds(18'000));
  EXPECT_THAT(late.err, HasSubstr("ERROR: step barrier: the deadline passed: 2.0 s (hooks: barrier: interrupted)"));
  EXPECT_EQ(Json::parse(late.out, nullptr, false)["failed_step"], "barrier");
  EXPECT_EQ(read_file(given_up), "barrier\n");
  EXPECT_TRUE(takes_writes(source()));
  const auto nobody = switch_over("", {"--name", "nobody"});
  EXPECT_EQ(nobody.code, 2) << nobody;
  EXPECT_THAT(nobody.out, HasSubstr("failed before the first step; the source takes writes"));
  EXPECT_THAT(nobody.err, HasSubstr("ERROR: there is no replica named nobody"));
  auto slow = source().session();
  slow.exec("begin; insert into account values (-8, 0)");
  const auto waiting = switch_over("  transaction-wait: 1s\n  long-transactions: fail\n  verify: off\n");
  EXPECT_EQ(waiting.code, 5) << waiting;
  slow.exec("commit");
  EXPECT_TRUE(takes_writes(source()));
  source().exec("insert into account values (-9, 0)");
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  target().exec(
      "set session_replication_role = replica; set application_name = 'pgbaton/test'; delete from account "
      "where id = -9");
  const auto differs = switch_over("");
  EXPECT_EQ(differs.code, 6) << differs;
  EXPECT_TRUE(takes_writes(source()));
  EXPECT_EQ(fence_left(source()), "0/0");
  ASSERT_EQ(run("drop").code, 0);
  EXPECT_EQ(fence_left(target()), "0/0");
}

TEST_F(SwitchoverTest, AFrozenConductorLosesToTheDeadline) {
  auto frozen = start("switchover", {"--config", write_config("  deadline: 1s\n")},
                      {{"PGBATON_FAILPOINTS", "switchover_barrier=freeze"}});
  ASSERT_TRUE(source().wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "1"));
  ASSERT_TRUE(fence_goes(source()));
  expect_only(source(), target(), "the deadline");
  frozen.kill(SIGCONT);
  const auto result = frozen.wait();
  EXPECT_EQ(result.code, 5) << result;
  expect_only(source(), target(), "the end");
  // In the transaction of the flip, which holds the row that decides.
  auto flipping = start("switchover", {"--config", config_}, {{"PGBATON_FAILPOINTS", "switchover_before_flip=freeze"}});
  ASSERT_TRUE(source().wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "1"));
  ASSERT_TRUE(fence_goes(source()));
  expect_only(source(), target(), "a frozen flip");
  flipping.kill(SIGCONT);
  EXPECT_NE(flipping.wait().code, 0);
  expect_only(source(), target(), "a flip that was given up");
}

TEST_F(SwitchoverTest, DdlInThePauseAndPreparedTransactionsEndItAndAFullComparisonPasses) {
  const auto psql = Cluster::bin_directory(15) + "/psql -qX -d '" + source().conninfo() + "' -c ";
  const auto ddl = switch_over("  hook-fenced: >-\n    " + psql + "'alter table account add column late int'\n");
  EXPECT_EQ(ddl.code, 8) << ddl;
  EXPECT_THAT(ddl.err, HasSubstr("altered during the switchover")) << ddl;
  EXPECT_TRUE(takes_writes(source()));
  EXPECT_FALSE(takes_writes(target()));
  target().exec("alter table account add column late int");
  auto session = source().session();
  session.exec("begin; insert into account values (-20, 0); prepare transaction 'open'");
  const auto prepared = switch_over("");
  EXPECT_EQ(prepared.code, 3) << prepared;
  EXPECT_THAT(prepared.err, HasSubstr("prepared transaction")) << prepared;
  EXPECT_TRUE(takes_writes(source()));
  session.exec("commit prepared 'open'");
  // Made and filled while others wait at the flip, which knows nothing of such a table: ended when its time is over.
  // Who has only locked rows or written to a table of his own goes on.
  auto harmless = source().session();
  harmless.exec("create temporary table mine (id int); insert into account values (-30, 0)");
  auto making = source().session();
  auto full_run = start("switchover", {"--config", write_config("  verify: full\n  transaction-wait: 1s\n" + held())});
  until_held();
  harmless.exec("begin; insert into mine values (1); select from account where id = -30 for update");
  making.exec("begin; create table staging as select 1 as n");
  go_on();
  const auto full = full_run.wait(Milliseconds(120'000));
  ASSERT_EQ(full.code, 0) << full;
  EXPECT_THAT(full.err, HasSubstr("holding a relation that it makes"));
  EXPECT_ANY_THROW(making.exec("commit"));
  EXPECT_NO_THROW(harmless.exec("commit"));
  EXPECT_THAT(full.out, HasSubstr("rows compared, equal"));
  EXPECT_EQ(target().number("select count(*) from account where id = -20"), 1);
}

// What begins behind the fence and goes round its triggers, which hold statements only.
TEST_F(SwitchoverTest, ALoadThatPutsTriggersOutOfActionEndsItAndWhatIsBeingMadeIsWaitedFor) {
  auto load = source().session();
  auto loaded = start("switchover", {"--config", write_config(held())});
  until_held();
  load.exec("begin; alter table account disable trigger all; insert into account values (4711, 0)");
  go_on();
  // At the fence nobody held a lock: it is the flip that waits for this one.
  ASSERT_TRUE(source().wait_until(
      "select count(*) > 0 from pg_locks where not granted and mode = 'ShareLock' and locktype = 'relation'", "t"));
  load.exec("alter table account enable trigger all; commit");
  const auto refused = loaded.wait();
  EXPECT_EQ(refused.code, 1) << refused;
  EXPECT_THAT(refused.err, HasSubstr(R"(step flip: the fence is missing on "public"."account")")) << refused;
  EXPECT_TRUE(takes_writes(source()));
  EXPECT_FALSE(takes_writes(target()));
  auto making = source().session();
  auto failing =
      start("switchover", {"--config", write_config("  long-transactions: fail\n  transaction-wait: 1s\n" + held())});
  until_held();
  making.exec("begin; create table staging as select 1 as n");
  go_on();
  const auto failed = failing.wait();
  EXPECT_EQ(failed.code, 5) << failed;
  EXPECT_THAT(failed.err, HasSubstr("holding a relation that it makes")) << failed;
  making.exec("rollback");
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  EXPECT_EQ(target().number("select count(*) from account where id = 4711"), 1);
}

// A fence is one attempt's: whoever comes late, or means another replica, opens nothing.
TEST_F(SwitchoverTest, AWatchdogThatWasHeldUpAndAnUndoOpenNoOtherFence) {
  auto frozen =
      start("switchover", {"--config", write_config("")}, {{"PGBATON_FAILPOINTS", "switchover_fenced=freeze"}});
  ASSERT_TRUE(source().wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "1"));
  const auto conductor = std::to_string(frozen.pid());
  pid_t watchdog = 0;
  std::ifstream("/proc/" + conductor + "/task/" + conductor + "/children") >> watchdog;
  ASSERT_GT(watchdog, 0);
  ::kill(watchdog, SIGSTOP);
  frozen.kill(SIGKILL);
  frozen.wait();
  EXPECT_FALSE(takes_writes(source()));
  EXPECT_EQ(switch_over("", {"--undo", "--name", "other"}).code, 2) << "it is not of that replica";
  EXPECT_EQ(switch_over("", {"--undo"}).code, 0);
  EXPECT_TRUE(takes_writes(source()));
  auto one = start("switchover", {"--config", config_}), other = start("switchover", {"--config", config_});
  EXPECT_EQ(one.wait().code, 0);
  EXPECT_EQ(other.wait().code, 0);
  expect_only(target(), source(), "two at once");
  ::kill(watchdog, SIGCONT);
  std::this_thread::sleep_for(Milliseconds(1'500));
  expect_only(target(), source(), "the old watchdog");
  EXPECT_EQ(switch_over("", {"--undo"}).code, 2);
  expect_only(target(), source(), "undo after the flip");
  // The later one finds the replica that it was to move gone.
  auto back = start("switchover", {"--config", config_, "--rollback"});
  auto later = start("switchover", {"--config", config_, "--rollback"});
  for (auto* tool : {&back, &later}) {
    const auto result = tool->wait();
    EXPECT_EQ(result.code, 0) << result;
    EXPECT_THAT(result.out, HasSubstr("rolled back")) << result;
  }
  expect_only(source(), target(), "two rollbacks at once");
}

}  // namespace
}  // namespace pgbaton::testing
