// Readiness in its three steps, what `status` says at each moment of a replica's life, and the events of all of it.
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class ReadinessTest : public PairTest {
 protected:
  Json status() {
    const auto result = run("status", {"--json"});
    EXPECT_EQ(result.code, 0) << result;
    auto document = Json::parse(result.out, nullptr, false);
    return document.is_object() ? document : Json::object();
  }
  // Polls until the document is as wanted; the last one goes into the failure.
  template <typename Wanted>
  ::testing::AssertionResult status_becomes(Wanted wanted, Json* found = nullptr) {
    Json document;
    for (const auto until = std::chrono::steady_clock::now() + Milliseconds(40'000);
         std::chrono::steady_clock::now() < until;) {
      document = status();
      if (found != nullptr) *found = document;
      if (wanted(document)) return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << document.dump(2);
  }
  static Json table(const Json& status, const std::string& name) {
    for (const auto& one : status.at("tables"))
      if (one.at("name") == name) return one;
    return {};
  }
  std::string events_file() { return source().directory() + "/events.jsonl"; }
  std::vector<Json> told() {
    std::vector<Json> events;
    std::ifstream file(events_file());
    for (std::string line; std::getline(file, line);) events.push_back(Json::parse(line));
    return events;
  }
  int count_told(const std::string& kind) {
    int count = 0;
    for (const auto& event : told()) count += event.at("event") == kind ? 1 : 0;
    return count;
  }
  ::testing::AssertionResult told_of(const std::string& kind) {
    for (int i = 0; i < 400; ++i) {
      if (count_told(kind) > 0) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(Milliseconds(50));
    }
    return ::testing::AssertionFailure() << "no event " << kind << " in " << read_file(events_file());
  }
  void while_it_copies(Tool& clone);
  void while_it_streams(Tool& clone);
  void a_number_given_early_may_be_committed_late();
};

// One part of `big` sleeps in the middle of its rows, with its lock and the snapshot held.
void ReadinessTest::while_it_copies(Tool& clone) {
  Json seen;
  ASSERT_TRUE(status_becomes(
      [](const Json& now) {
        return now.at("phase") == "copying" && table(now, "big").value("rows", 0) > 0 &&
               now.at("rates").at("copy_bytes_per_second").is_number();
      },
      &seen))
      << clone.err();
  const auto big = table(seen, "big");
  EXPECT_EQ(big.at("phase"), "copying");
  EXPECT_GE(big.at("parts").at("done"), 1);
  EXPECT_GT(big.at("parts").at("total"), big.at("parts").at("done"));
  EXPECT_GT(big.at("bytes"), 100'000);
  EXPECT_GE(seen.at("copy").at("bytes_done"), big.at("bytes"));
  EXPECT_EQ(seen.at("readiness").at("reached"), "none");
  EXPECT_EQ(seen.at("ready"), false);
  EXPECT_GT(seen.at("lag").at("copy").at("bytes"), 0);
  EXPECT_TRUE(seen.at("lag").at("stream").at("bytes").is_number());
  EXPECT_GT(seen.at("snapshot").at("age_seconds"), 0.0);
  EXPECT_GT(seen.at("slot").at("wal_safe_bytes"), 1'000'000) << "max_slot_wal_keep_size is set";

  // DDL waits for the copy, and a query of the application for the DDL.
  auto ddl = source().session(), query = source().session();
  ddl.send("set application_name = 'migration'; lock table big in access exclusive mode");
  ASSERT_TRUE(source().wait_until("select count(*) from pg_locks where not granted", "1"));
  query.send("set application_name = 'shop'; select count(*) from big");
  ASSERT_TRUE(source().wait_until("select count(*) from pg_locks where not granted", "2"));
  seen = status();
  ASSERT_EQ(seen.at("waiting").size(), 2u) << seen.dump(2);
  std::map<std::string, Json> waiting;
  for (const auto& one : seen.at("waiting")) waiting[one.at("application_name").get<std::string>()] = one;
  EXPECT_EQ(waiting["migration"].at("pid"), ddl.backend_pid());
  EXPECT_EQ(waiting["migration"].at("table"), "public.big");
  EXPECT_EQ(waiting["migration"].at("mode"), "AccessExclusiveLock");
  EXPECT_THAT(waiting["migration"].at("behind").get<std::string>(), HasSubstr("copy-"));
  EXPECT_EQ(waiting["shop"].at("pid"), query.backend_pid());
  EXPECT_THAT(run("status").out, AllOf(HasSubstr("WAITING     on the source, pid"), HasSubstr("copy lag"),
                                       HasSubstr("snapshot    held for"), HasSubstr(" parts")));
  source().exec("select pg_cancel_backend(" + std::to_string(ddl.backend_pid()) + ")");
  EXPECT_THROW(ddl.finish(), SqlError);
  query.finish();
}

void ReadinessTest::while_it_streams(Tool& clone) {
  ASSERT_TRUE(wait_for("copied")) << clone.err();
  ASSERT_TRUE(wait_for("indexed")) << clone.err();
  ASSERT_TRUE(wait_for("ready")) << clone.err();
  Load load(source().conninfo(), 2, "update small set n = n + 1 where id = 50; select pg_sleep(0.01)");
  Json seen;
  ASSERT_TRUE(status_becomes(
      [](const Json& now) {
        const auto& rate = now.at("rates").at("changes_per_second");  // null until there is one
        return rate.is_number() && rate > 1;
      },
      &seen));
  const auto& readiness = seen.at("readiness");
  EXPECT_EQ(readiness.at("reached"), "ready");
  EXPECT_EQ(readiness.at("generation"), seen.at("generation"));
  EXPECT_LE(readiness.at("copied_at"), readiness.at("indexed_at"));
  EXPECT_LE(readiness.at("indexed_at"), readiness.at("ready_at"));
  EXPECT_TRUE(readiness.at("missing").is_null());
  EXPECT_EQ(seen.at("lag").at("copy"), (Json{{"bytes", 0}, {"seconds", 0.0}}));
  EXPECT_GT(seen.at("rates").at("applied_bytes_per_second"), 0.0);
  EXPECT_TRUE(seen.at("rates").at("copy_bytes_per_second").is_null());
  EXPECT_TRUE(seen.at("lsn").at("largest_boundary").is_string());
  EXPECT_TRUE(table(seen, "big").at("parts").is_null());
  EXPECT_EQ(table(seen, "big").at("rows"), 30'000);
  // From a machine that reaches the target alone.
  const auto far = Tool::run({"status", "--json", "--target", target().conninfo()});
  ASSERT_EQ(far.code, 0) << far;
  const auto without_source = Json::parse(far.out);
  EXPECT_TRUE(without_source.at("lag").at("bytes").is_number()) << far.out;
  EXPECT_TRUE(without_source.at("lsn").at("source_flush").is_string());
  load.stop();
}

// What a long transaction has written is committed after what came later, and must not be left out for it.
void ReadinessTest::a_number_given_early_may_be_committed_late() {
  auto slow = target().session();
  slow.exec("begin; insert into pgbaton.event (replica, kind) values ('default', 'early')");
  target().exec("insert into pgbaton.event (replica, kind) values ('default', 'later')");
  ASSERT_TRUE(told_of("later"));
  std::this_thread::sleep_for(Milliseconds(2500));  // some more looks
  slow.exec("commit");
  ASSERT_TRUE(told_of("early"));
  EXPECT_EQ(count_told("early"), 1);
  EXPECT_EQ(count_told("later"), 1);
}

TEST_F(ReadinessTest, StatusAndEventsFromTheCopyToADrift) {
  source().exec("alter system set max_slot_wal_keep_size = '1GB'; ");
  source().reload();
  create_filled("big", 30'000);
  create_filled("small", 100);
  source().exec("create table keyless (v int); insert into keyless values (1)");
  auto clone = start(
      "clone", {"--follow", "--jobs", "2", "--split-above", "1MB", "--missing", "repair", "--events", events_file()},
      {{"PGBATON_FAILPOINTS", "copy_table_half=sleep:6000@4"}});
  while_it_copies(clone);
  while_it_streams(clone);
  a_number_given_early_may_be_committed_late();

  target().exec(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgbaton/default/apply'");
  ASSERT_TRUE(told_of("reconnect")) << clone.err();
  target().exec("delete from small where id = 5; update small set pad = 'tampered' where id = 6");
  source().exec("update small set n = -1, pad = 'whole' where id = 5");
  ASSERT_TRUE(told_of("missing_row")) << clone.err();
  const auto verified = run("verify", {"--repair"});
  EXPECT_EQ(verified.code, 0) << verified;
  EXPECT_TRUE(told_of("repair"));
  source().exec("alter table small add column w int; insert into small values (1000, 1, 'x', 1)");
  const auto stopped = clone.wait(Milliseconds(30'000));
  EXPECT_EQ(stopped.code, 8) << stopped;

  std::map<std::string, Json> last;
  std::set<std::string> kinds;
  for (const auto& event : told()) {
    EXPECT_EQ(event.at("replica"), "default");
    kinds.insert(event.at("event").get<std::string>());
    last[event.at("event").get<std::string>()] = event.at("detail");
  }
  EXPECT_THAT(kinds, IsSupersetOf({"clone_started", "boundary", "table_done", "copied", "indexed", "ready", "reconnect",
                                   "missing_row", "cut", "repair", "verify", "drift", "failed"}));
  EXPECT_EQ(count_told("table_done"), 3);
  EXPECT_EQ(count_told("failed"), 1);
  EXPECT_EQ(last["boundary"].at("lsn"), target().scalar("select consistent_point from pgbaton.replica"));
  EXPECT_EQ(last["ready"].at("generation"), target().scalar("select generation from pgbaton.replica"));
  EXPECT_EQ(last["missing_row"].at("key"), "(id)=(5)");
  EXPECT_EQ(last["drift"].at("table"), "\"public\".\"small\"");
  EXPECT_THAT(last["drift"].at("statement").get<std::string>(), HasSubstr("ADD COLUMN \"w\""));
  // All but the start of the command stand in the state, too.
  kinds.erase("clone_started");
  for (const auto& kind : kinds)
    EXPECT_GT(target().number("select count(*) from pgbaton.event where kind = " + quote_literal(kind)), 0) << kind;
  const auto seen = status();
  EXPECT_EQ(seen.at("last_error").at("exit_code"), 8);
  EXPECT_EQ(seen.at("recent").at(0).at("event"), "failed");
  EXPECT_TRUE(seen.at("rates").at("changes_per_second").is_null()) << "nobody writes";
  EXPECT_THAT(run("status").out, AllOf(HasSubstr("lately      20"), HasSubstr("the table's shape changed")));
  target().exec("alter table small add column w int");
  expect_equal_after_drain();
}

#ifdef PGBATON_FAILPOINTS
TEST_F(ReadinessTest, ReadyTakesThePositionAndALittleLagAndBelongsToTheGeneration) {
  source().exec("create table t (id int primary key, pad text)");
  EXPECT_EQ(run("wait", {"--for", "indexed", "--timeout", "300ms"}).code, 5);
  ASSERT_EQ(run("clone").code, 0);
  auto seen = status();
  EXPECT_EQ(seen.at("readiness").at("reached"), "indexed");
  EXPECT_EQ(seen.at("readiness").at("missing"), "no stream has begun since the copy was complete");
  EXPECT_TRUE(wait_for("copied"));
  EXPECT_TRUE(wait_for("indexed"));
  // The position is read by the first stream, and stays.
  EXPECT_EQ(run("follow", {}, {{"PGBATON_FAILPOINTS", "stream_connected=kill"}}).code, 128 + SIGKILL);
  const auto goal = status().at("readiness").at("goal_lsn");
  ASSERT_TRUE(goal.is_string());
  source().exec("insert into t values (1, 'a')");
  const auto reached_lsn = source().scalar("select pg_current_wal_flush_lsn()");
  source().exec("insert into t select i, repeat(md5(i::text), 20) from generate_series(10, 1500) i");
  const auto behind = run("follow", {"--until-lsn", reached_lsn, "--ready-lag", "64kB"});
  ASSERT_EQ(behind.code, 0) << behind;
  seen = status();
  EXPECT_EQ(seen.at("readiness").at("goal_lsn"), goal);
  EXPECT_EQ(seen.at("readiness").at("reached"), "indexed") << seen.dump(2);
  EXPECT_EQ(seen.at("readiness").at("lag_limit_bytes"), 65536);
  EXPECT_THAT(seen.at("readiness").at("missing").get<std::string>(), HasSubstr("must be below 64 kB"));
  EXPECT_EQ(target().scalar("select ready_goal_lsn <= applied_lsn from pgbaton.replica, pgbaton.progress"), "t");
  const auto waited = run("wait", {"--for", "ready", "--timeout", "500ms"});
  EXPECT_EQ(waited.code, 5);
  EXPECT_THAT(waited.err, AllOf(HasSubstr("is not ready after 500 ms"), HasSubstr("the lag is"))) << waited;

  ASSERT_EQ(run("follow", {"--until", "caught-up", "--ready-lag", "64kB"}).code, 0);
  seen = status();
  EXPECT_EQ(seen.at("readiness").at("reached"), "ready");
  const auto ready_at = seen.at("readiness").at("ready_at");
  // Sticky, however far it falls behind, and until a new generation begins.
  source().exec("update t set pad = pad || 'x'");
  const auto still = run("wait", {"--for", "ready", "--timeout", "1s", "--json"});
  EXPECT_EQ(still.code, 0) << still;
  EXPECT_EQ(Json::parse(still.out).at("generation"), seen.at("generation"));
  EXPECT_EQ(status().at("readiness").at("ready_at"), ready_at);
  ASSERT_EQ(run("clone", {"--restart"}).code, 0);
  const auto anew = status().at("readiness");
  EXPECT_EQ(anew.at("reached"), "indexed");
  EXPECT_NE(anew.at("generation"), seen.at("generation"));
  EXPECT_TRUE(anew.at("ready_at").is_null() && anew.at("ready_lsn").is_null() && anew.at("goal_lsn").is_null());
  EXPECT_EQ(run("wait", {"--for", "ready", "--timeout", "300ms"}).code, 5);
  expect_equal_after_drain();
  EXPECT_EQ(status_field("readiness.reached"), "ready");
}
#endif

}  // namespace
}  // namespace pgbaton::testing
