// --http of the commands that are a course of steps: a switchover and a rebuild, stopped where somebody would look.
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "browser.hpp"
#include "promtool.hpp"
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

double value_of(const Metrics& metrics, const std::string& name, const std::string& step = "") {
  const auto found =
      metrics.values.find(name + "{replica=\"default\"" + (step.empty() ? "" : ",step=\"" + step + "\"") + "}");
  return found == metrics.values.end() ? -1 : found->second;
}

Metrics scrape(int port) {
  auto metrics = parse_metrics(http_get(port, "/metrics").body);
  EXPECT_THAT(metrics.problems, IsEmpty());
  return metrics;
}

// Like a page that is open until the command has ended: the last documents, for the browser.
std::map<std::string, HttpReply> watch_to_the_end(int port) {
  std::map<std::string, HttpReply> last;
  for (int i = 0; i < 600; ++i) {
    bool answered = true;
    for (const auto* path : {"/", "/live.json", "/status.json"}) {
      auto reply = http_get(port, path, Milliseconds(2'000));
      answered = answered && reply.status != 0;
      if (reply.status != 0) last[path] = std::move(reply);
    }
    if (!answered) break;
    std::this_thread::sleep_for(Milliseconds(50));
  }
  return last;
}

class CourseTest : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    directory_ = make_run_directory("course");
  }
  // Ends when the file is there.
  std::string until(const std::string& file) const {
    return "until test -e " + directory_ + "/" + file + "; do sleep 0.05; done";
  }
  void touch(const std::string& file) const { std::ofstream(directory_ + "/" + file) << "x"; }
  std::string directory_;
};

TEST_F(CourseTest, ASwitchover) {
  create_filled("orders", 2'000);
  clone_until_caught_up();
  std::ofstream(directory_ + "/config.yaml")
      << "switchover:\n  hook-fenced: \"" << until("fenced") << "\"\n  hook-after: \"" << until("after") << "\"\n";
  std::ofstream(directory_ + "/bad.yaml")
      << "switchover:\n  hook-fenced: \"" << until("failing") << "; echo no route to the pooler >&2; exit 3\"\n";
  {
    auto dry = start("switchover", {"--dry-run", "--http", "0"});
    const int port = http_port(dry);
    ASSERT_NE(port, 0) << dry.err();
    const auto last = watch_to_the_end(port);
    EXPECT_EQ(dry.wait().code, 0);
    const auto live = Json::parse(last.at("/live.json").body);
    if (!live.at("ended").is_null()) {  // who looks for the first time at the very end may come too late
      EXPECT_EQ(live.at("course").at("facts").at("result"), "possible");
    }
  }
  {
    auto failing = start("switchover", {"--config", directory_ + "/bad.yaml", "--http", "0"});
    const int port = http_port(failing);
    ASSERT_NE(port, 0) << failing.err();
    ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_step_running{replica=\"default\",step=\"fence\"} 1"));
    ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_pausing{replica=\"default\"} 1"));
    http_get(port, "/live.json");  // somebody looks
    touch("failing");
    const auto last = watch_to_the_end(port);
    EXPECT_NE(failing.wait().code, 0);
    Relay relay(last);
    EXPECT_TRUE(says(look(relay.port(), {"switchover-failed"}),
                     {"The switchover has failed; writers go on as before", "no route to the pooler", "failed here",
                      "✓ Prepare", "for so long nobody could write"}));
    EXPECT_EQ(Json::parse(last.at("/live.json").body).at("ended").at("exit_code"), 1);
    EXPECT_EQ(last.at("/status.json").headers.at("content-type"), "application/json");
  }
  auto tool = start("switchover", {"--config", directory_ + "/config.yaml", "--http", "0"});
  const int port = http_port(tool);
  ASSERT_NE(port, 0) << tool.err();
  ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_pausing{replica=\"default\"} 1"));
  const auto fenced = scrape(port);
  EXPECT_EQ(value_of(fenced, "pgbaton_step_running", "fence"), 1);
  EXPECT_EQ(value_of(fenced, "pgbaton_step_running", "prepare"), 0);
  EXPECT_GT(value_of(fenced, "pgbaton_step_duration_seconds", "prepare"), 0);
  const auto so_far = value_of(fenced, "pgbaton_pause_duration_seconds");
  EXPECT_GE(so_far, 0);
  EXPECT_EQ(http_get(port, "/readyz").body, "fence\n");
  EXPECT_EQ(http_get(port, "/readyz").status, 503);
  const auto status = Json::parse(http_get(port, "/status.json").body);
  EXPECT_EQ(status.at("course").at("steps").back().at("name"), "fence");
  EXPECT_EQ(status.at("course").at("pausing"), true);
  EXPECT_EQ(status.at("phase"), "ready");
  ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_writer_running{replica=\"default\"} 1"));
  if (!promtool().empty()) {
    EXPECT_EQ(judge_alerts({{"fenced", http_get(port, "/metrics").body, {"PgbatonWritersWait"}}}), "");
  }
  EXPECT_TRUE(says(look(port, {"switchover"}), {"Writers wait: fence", "so far", "✓ Preflight", "✓ Prepare", "Barrier",
                                                "the source refuses them, the target is not open yet"}));
  look(port, {"switchover-dark", "1200,1500", true});
  look(port, {"switchover-phone", "500,2600"});
  EXPECT_GT(value_of(scrape(port), "pgbaton_pause_duration_seconds"), so_far);
  touch("fenced");
  ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_step_running{replica=\"default\",step=\"clean-up\"} 1"))
      << tool.err();
  const auto flipped = scrape(port);
  EXPECT_EQ(value_of(flipped, "pgbaton_pausing"), 0);
  EXPECT_GT(value_of(flipped, "pgbaton_pause_duration_seconds"), so_far);
  // The replica that is left behind is nothing to alert of.
  EXPECT_EQ(flipped.types.count("pgbaton_replica_phase") + flipped.types.count("pgbaton_target_up"), 0u);
  EXPECT_EQ(Json::parse(http_get(port, "/status.json").body).at("course").at("facts").count("barrier_lsn"), 1u);
  http_get(port, "/live.json");
  touch("after");
  const auto last = watch_to_the_end(port);
  const auto result = tool.wait();
  EXPECT_EQ(result.code, 0) << result;
  Relay relay(last);
  EXPECT_TRUE(says(look(relay.port(), {"switched-over"}), {"Switched over: the application works on the target",
                                                           "✓ Flip", "✓ Clean up", "for so long nobody could write"}));
}

TEST_F(CourseTest, ARebuild) {
  create_filled("orders", 12'000, 200);
  create_filled("customers", 500);
  const auto rebuild = [&](const Arguments& more) {
    Arguments all{"rebuild", "--source", source().conninfo(), "--target", target().conninfo("shop"),
                  "--http",  "0",        "--verbose"};
    all.insert(all.end(), more.begin(), more.end());
    return Tool(all);
  };
  auto tool = rebuild({"--max-rate", "500kB", "--jobs", "1", "--verify", "--before-swap", until("swap")});
  const int port = http_port(tool);
  ASSERT_NE(port, 0) << tool.err();
  // Of the new generation, whose database is not the one of --target.
  ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_replica_phase{replica=\"default\",phase=\"copying\"} 1"));
  // The copy waits for its last table until it has been looked at.
  auto blocker = std::make_optional(target().session("shop__g1"));
  blocker->exec("begin; lock table customers in access exclusive mode");
  const auto copying = scrape(port);
  EXPECT_EQ(value_of(copying, "pgbaton_step_running", "copy"), 1);
  EXPECT_EQ(value_of(copying, "pgbaton_rebuild_generation"), 1);
  EXPECT_GT(value_of(copying, "pgbaton_copy_left_bytes"), 0);
  EXPECT_GT(value_of(copying, "pgbaton_slot_wal_held_bytes"), 0);
  EXPECT_EQ(http_get(port, "/readyz").body, "copy\n");
  EXPECT_TRUE(says(look(port, {"rebuild"}), {"Building generation 1: copy", "shop__g1", "% of the rows", "✓ Create",
                                             "Copy speed", "WAL held", "the live one serves until the swap"}));
  blocker.reset();
  ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_step_running{replica=\"default\",step=\"before-swap\"} 1"))
      << tool.err();
  const auto built = scrape(port);
  for (const auto* step : {"preflight", "create", "check", "copy", "catch-up", "prove", "verify", "finish", "settings"})
    EXPECT_EQ(value_of(built, "pgbaton_step_running", step), 0) << step;
  EXPECT_EQ(built.types.count("pgbaton_replica_phase") + built.types.count("pgbaton_target_up"), 0u)
      << "the generation is no replica any more";
  look(port, {"rebuild-phone", "500,2600"});
  touch("swap");
  const auto last = watch_to_the_end(port);
  const auto result = tool.wait();
  EXPECT_EQ(result.code, 0) << result;
  const auto live = Json::parse(last.at("/live.json").body);
  EXPECT_EQ(live.at("ended").at("exit_code"), 0);
  EXPECT_EQ(live.at("course").at("facts").at("database"), "shop");
  // Nobody of this process was in the way of the swap.
  EXPECT_THAT(differences(source().conninfo(), target().conninfo("shop")), IsEmpty());

  auto failing = rebuild({"--before-swap", "echo not today >&2; " + until("failing") + "; exit 4"});
  const int other = http_port(failing);
  ASSERT_NE(other, 0) << failing.err();
  ASSERT_TRUE(comes_to_say(other, "/metrics", "pgbaton_step_running{replica=\"default\",step=\"before-swap\"} 1"));
  http_get(other, "/live.json");
  touch("failing");
  const auto failure = Json::parse(watch_to_the_end(other).at("/live.json").body);
  EXPECT_EQ(failing.wait().code, 1);
  EXPECT_THAT(failure.at("ended").at("message").get<std::string>(), HasSubstr("before-swap"));
  EXPECT_EQ(failure.at("course").at("steps").back().at("failed"), true) << failure.at("course");
}

}  // namespace
}  // namespace pgbaton::testing
