// The command line contract (DESIGN 8) as scripts see it: exit codes, documents, messages, and what is left behind.
#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class CommandsTest : public PairTest {
 protected:
  // "severity id" of each finding.
  std::set<std::string> findings(const Arguments& arguments, int expected_code) {
    const auto result = Tool::run(arguments);
    EXPECT_EQ(result.code, expected_code) << result;
    std::set<std::string> found;
    const auto document = Json::parse(result.out);
    for (const auto& finding : document.at("findings")) {
      for (const auto* key : {"id", "severity", "object", "message", "remedy"})
        EXPECT_TRUE(finding.contains(key)) << key;
      if (finding.at("severity") != "note") {
        EXPECT_NE(finding.at("remedy"), "") << finding;
      }
      found.insert(finding.at("severity").get<std::string>() + " " + finding.at("id").get<std::string>());
    }
    return found;
  }
  std::set<std::string> check(int expected_code, const Arguments& more = {}) {
    Arguments all{"--json"};
    all.insert(all.end(), more.begin(), more.end());
    return findings(arguments("check", all), expected_code);
  }
  void expect_nothing_left() {
    EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
    EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
  }
};

TEST_F(CommandsTest, CheckFindsEachBlockerAndCloneRefusesIt) {
  source().exec(
      "create table t (id int primary key); create table keyless (v int); create unlogged table u (id int primary key);"
      "create materialized view m as select 1 as one; create role app; create role reader login replication");
  EXPECT_THAT(check(0), ::testing::AllOf(Contains("warning table.no_identity"), Contains("warning table.unlogged"),
                                         Contains("note table.matview")));
  EXPECT_THAT(findings({"check", "--json", "--source", source().conninfo()}, 0), Contains("note local.pg_dump"));

  source().exec("alter table t owner to app");
  EXPECT_THAT(check(3), Contains("blocker target.role_missing"));
  EXPECT_EQ(run("clone").code, 3);
  check(0, {"--no-owner", "--no-privileges"});
  target().exec("create role app");
  check(0);

  EXPECT_THAT(findings({"check", "--json", "--source", source().conninfo("postgres", "reader")}, 3),
              ::testing::AllOf(Contains("blocker table.select_right"), Contains("blocker table.owner"),
                               Contains("blocker source.publication_right")));
  EXPECT_THAT(findings({"check", "--json", "--source", source().conninfo(), "--target", source().conninfo()}, 3),
              Contains("blocker pair.same_database"));
  EXPECT_THAT(check(3, {"--schema", "none"}), Contains("blocker target.table_missing"));
  EXPECT_THAT(check(3, {"--pg-dump", "/nonexistent/pg_dump"}), Contains("blocker local.pg_dump"));

  source().exec("create publication pgbaton");
  EXPECT_THAT(check(3), Contains("blocker source.publication_exists"));
  source().exec("drop publication pgbaton");
  source().exec("select lo_create(0)");
  EXPECT_THAT(check(3), Contains("blocker source.large_objects"));
  source().exec("select lo_unlink(oid) from pg_largeobject_metadata");
  target().exec("create table t (id int)");
  EXPECT_THAT(check(3), Contains("blocker target.table_exists"));
  const auto refused = run("clone");
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("HINT: "));
  expect_nothing_left();
}

class MinimalWalTest : public CommandsTest {
 protected:
  ClusterOptions source_options() const override {
    return {.settings = {{"wal_level", "replica"}, {"max_replication_slots", "0"}}};
  }
};

TEST_F(MinimalWalTest, CheckNamesWalLevelAndSlots) {
  EXPECT_THAT(check(3), ::testing::AllOf(Contains("blocker source.wal_level"), Contains("blocker source.slots")));
  EXPECT_EQ(run("clone").code, 3);
  expect_nothing_left();
}

TEST_F(CommandsTest, DryRunPrintsThePlanAndChangesNothing) {
  create_filled("big", 3000);
  source().exec("create table keyless (v int); create unlogged table u (id int primary key)");
  const auto result = run("clone", {"--dry-run", "--json"});
  ASSERT_EQ(result.code, 0) << result;
  const auto plan = Json::parse(result.out);
  EXPECT_EQ(plan.at("slot"), "pgbaton");
  EXPECT_EQ(plan.at("publication_inserts"), "pgbaton__ins");
  EXPECT_EQ(plan.at("tables").at(0).at("name"), "big");
  EXPECT_EQ(plan.at("tables").at(0).at("guard"), "column");
  EXPECT_EQ(plan.at("tables").at(2).at("copied"), false);
  expect_nothing_left();
  EXPECT_EQ(target().scalar("select to_regclass('big') is null"), "t");
}

TEST_F(CommandsTest, WithoutAReplica) {
  source().exec("create table t (id int primary key)");
  const auto status = run("status", {"--json"});
  EXPECT_EQ(status.code, 0) << status;
  EXPECT_EQ(Json::parse(status.out).at("phase"), "none");
  EXPECT_EQ(run("wait", {"--for", "ready", "--timeout", "1s"}).code, 5);
  EXPECT_EQ(run("follow").code, 2);
  EXPECT_EQ(run("finish").code, 0);
  EXPECT_EQ(run("drop").code, 0);
  EXPECT_EQ(Tool::run({"status"}).code, 2);
  EXPECT_EQ(Tool::run({"verify"}).code, 2);
  expect_nothing_left();
}

TEST_F(CommandsTest, WaitEndsWithTheWritersError) {
  source().exec("create table t (id int primary key, v int); insert into t values (1, 1)");
  clone_until_caught_up();
  source().exec("alter table t add column w int; insert into t values (2, 2, 2)");
  auto waiter = start("wait", {"--for", "caught-up", "--timeout", "60s"});
  const auto followed = run("follow");
  EXPECT_EQ(followed.code, 8) << followed;
  EXPECT_EQ(waiter.wait(Milliseconds(10'000)).code, 8) << waiter.err();
  EXPECT_EQ(status_field("last_error.exit_code"), "8");
  // A later wait hears of it, too, as no writer starts.
  EXPECT_EQ(run("wait", {"--for", "caught-up", "--timeout", "60s"}, {}, Milliseconds(15'000)).code, 8);
  target().exec("alter table t add column w int");
  expect_equal_after_drain();
  EXPECT_EQ(status_field("last_error"), "null");
}

TEST_F(CommandsTest, SignalsEndABoundedCommandWithOne) {
  create_filled("big", 40'000, 200);
  source().exec("create table small (id int primary key); insert into small values (1)");
  auto clone = start("clone", {"--until", "caught-up", "--jobs", "2", "--max-rate", "2MB"});
  ASSERT_TRUE(wait_copying("big"));
  clone.kill(SIGTERM);
  const auto stopped = clone.wait(Milliseconds(15'000));
  EXPECT_EQ(stopped.code, 1) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("pgbaton drop --source"));
  clone_until_caught_up();
  expect_equal();
  auto follower = start("follow");
  ASSERT_TRUE(follower.wait_for_stderr("streaming from"));
  const auto second = run("follow");
  EXPECT_EQ(second.code, 7) << second;
  EXPECT_THAT(second.err, HasSubstr("pid " + std::to_string(follower.pid())));
  stop_follower(follower);
}

TEST_F(CommandsTest, CopiedReplicaDoesWhatItsFlagsSay) {
  source().exec(
      "create table t (id int primary key); insert into t values (1); create table other (id int primary key)");
  const auto copied = run("clone", {"--json"});
  ASSERT_EQ(copied.code, 0) << copied;
  EXPECT_EQ(Json::parse(copied.out).at("result"), "copied");
  EXPECT_EQ(status_field("phase"), "streaming");
  EXPECT_EQ(run("finish").code, 3);  // not ready
  EXPECT_EQ(run("clone", {"--exclude-table", "other"}).code, 2);
  for (const auto& [arguments, code] :
       std::map<std::string, int>{{"status --json", 1}, {"status", 1}, {"none --json", 2}}) {
    const auto command = fmt::format("{} {} --source '{}' --target '{}' >/dev/full 2>/dev/null", Tool::path(),
                                     arguments, source().conninfo(), target().conninfo());
    const int ended = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == code) << command << ended;
  }
  source().exec("insert into t values (2)");
  clone_until_caught_up();
  EXPECT_EQ(status_field("phase"), "ready");
  expect_equal();
  auto restarted = run("clone", {"--restart", "--until", "caught-up"});
  EXPECT_EQ(restarted.code, 0) << restarted;
  expect_equal();
  // Another table under the name of the replica's, which was renamed: its rows are nobody's to empty.
  target().exec("alter table t rename to kept; create table t (id int, only_copy text); insert into t values (1, 'x')");
  restarted = run("clone", {"--restart", "--until", "caught-up"});
  EXPECT_EQ(restarted.code, 3) << restarted;
  EXPECT_THAT(restarted.err, HasSubstr("\"public\".\"kept\""));
  EXPECT_EQ(target().number("select count(*) from t") + target().number("select count(*) from kept"), 3);
  target().exec("drop table t; alter table kept rename to t");
  restarted = run("clone", {"--restart", "--until", "caught-up"});
  EXPECT_EQ(restarted.code, 0) << restarted;
  expect_equal();
}

TEST_F(CommandsTest, DropDoesOneSideWhenTheOtherIsAway) {
  source().exec("create table t (id int primary key); insert into t values (1)");
  clone_until_caught_up();
  target().stop();
  const auto first = run("drop");
  EXPECT_EQ(first.code, 1) << first;
  EXPECT_THAT(first.out, HasSubstr("LEFT"));
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  target().start();
  const auto second = run("drop");
  EXPECT_EQ(second.code, 0) << second;
  expect_nothing_left();
}

// The state stays until the source is clean: nothing else tells the next run that slot and publication are its own.
TEST_F(CommandsTest, DropWithoutTheSourceIsCompletedByTheNextOne) {
  source().exec("create table t (id int primary key); insert into t values (1)");
  clone_until_caught_up();
  source().stop();
  const auto first = run("drop");
  EXPECT_EQ(first.code, 1) << first;
  EXPECT_THAT(first.out, ::testing::AllOf(HasSubstr("LEFT     slot on the source"), HasSubstr("guard columns of 1")));
  EXPECT_EQ(run("drop").code, 1);
  source().start();
  const auto second = run("drop");
  EXPECT_EQ(second.code, 0) << second;
  expect_nothing_left();
}

TEST_F(CommandsTest, ConfigurationEventsAndSecrets) {
  source().exec("create table t (id int primary key); insert into t values (1)");
  const std::string config = source().directory() + "/pgbaton.yaml", events = source().directory() + "/events.jsonl";
  std::ofstream(config) << "source: " << source().conninfo() << "\nname: shop\nevents: " << events << "\n";
  const auto cloned = Tool::run({"--config", config, "clone", "--until", "caught-up"}, Milliseconds(60'000),
                                {{"PGBATON_TARGET", target().conninfo() + " password=topsecret"}});
  EXPECT_EQ(cloned.code, 0) << cloned;
  EXPECT_EQ(source().scalar("select slot_name from pg_replication_slots"), "pgbaton_shop");
  std::ifstream file(events);
  std::set<std::string> kinds;
  for (std::string line; std::getline(file, line);) kinds.insert(Json::parse(line).at("event").get<std::string>());
  EXPECT_THAT(kinds, ::testing::IsSupersetOf(
                         {"clone_started", "boundary", "table_done", "copied", "indexed", "ready", "clone_ended"}));

  Tool waiter({"wait", "--for", "ready", "--timeout", "5s", "--target", target().conninfo() + " password=topsecret"});
  std::this_thread::sleep_for(Milliseconds(1000));
  const auto shown = read_file("/proc/" + std::to_string(waiter.pid()) + "/cmdline");
  EXPECT_THAT(shown, ::testing::AllOf(HasSubstr("--target"), Not(HasSubstr("topsecret"))));
  const auto waited = waiter.wait();
  EXPECT_EQ(waited.code, 5);  // another replica: the default name
  EXPECT_THAT(cloned.err + cloned.out + waited.err, Not(HasSubstr("topsecret")));
  EXPECT_EQ(target().number("select count(*) from pgbaton.replica r where r::text like '%topsecret%'"), 0);
}

}  // namespace
}  // namespace pgbaton::testing
