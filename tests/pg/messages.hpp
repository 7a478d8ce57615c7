// Every error that a user can cause: the exit code, an ERROR line that names what and where, a HINT, and no password.
// One row per cause. Rows with servers have two databases and a replica of their own, named as the row.
#pragma once
#include "support/pair.hpp"

#include <functional>

namespace pgbaton::testing {

inline constexpr const char* kPassword = "hunter2secret";

// From "ERROR: " on: nothing may follow the hint.
inline void expect_message(const ToolResult& result, int code, const std::vector<std::string>& says) {
  EXPECT_EQ(result.code, code) << result;
  const auto at = result.err.find("ERROR: ");
  ASSERT_NE(at, std::string::npos) << result;
  const auto message = result.err.substr(at);
  const auto hint = message.find("\nHINT: ");
  ASSERT_NE(hint, std::string::npos) << result;
  EXPECT_GT(message.size(), hint + 20) << "a hint is a sentence: " << result;
  EXPECT_EQ(message.find('\n', hint + 1), message.size() - 1) << "nothing follows the hint: " << result;
  for (const auto& part : says) EXPECT_THAT(message, ::testing::HasSubstr(part)) << result;
  EXPECT_THAT(result.err + result.out, ::testing::Not(::testing::HasSubstr(kPassword)));
}

// The two databases of a row, and what the command is given.
struct Scene {
  Cluster& source_cluster;
  Cluster& target_cluster;
  std::string name;
  std::string source_conninfo, target_conninfo;
  std::vector<Session> sessions;  // open until the command has ended
  std::optional<Tool> other;      // a process beside it

  void source(const std::string& sql) { source_cluster.exec(sql, name); }
  void target(const std::string& sql) { target_cluster.exec(sql, name); }
  std::string slot() const { return "pgbaton_" + name; }
  Arguments arguments(const std::string& command, const Arguments& more) const {
    Arguments all{command, "--name", name, "--source", source_conninfo, "--target", target_conninfo};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ToolResult run(const std::string& command, const Arguments& more, const Environment& environment = {}) const {
    return Tool::run(arguments(command, more), Milliseconds(60'000), environment);
  }
  void table() {
    source("create table t (id int primary key, v text, u int unique); insert into t values (1, 'a', 1)");
  }
  void cloned(const Arguments& more = {"--until", "caught-up"}) {
    table();
    const auto result = run("clone", more);
    ASSERT_EQ(result.code, 0) << result;
  }
  // A clone that ended when everything but the last step was done.
  void almost_cloned() {
    table();
    EXPECT_NE(run("clone", {}, {{"PGBATON_FAILPOINTS", "before_streaming=stop"}}).code, 0);
  }
};

struct Cause {
  std::string name;
  std::function<void(Scene&)> arrange;
  std::string command;
  Arguments options;
  int code;
  std::vector<std::string> says;
};

class MessagesTest : public PairTest {
 protected:
  ClusterOptions target_options() const override { return {.settings = {{"wal_level", "replica"}}}; }

  static std::string with(const std::string& conninfo, const std::string& more) {
    return conninfo + " password=" + kPassword + " " + more;
  }

  void expect_messages(const std::vector<Cause>& causes) {
    for (const auto& cause : causes) {
      SCOPED_TRACE(cause.name);
      source().exec("create database " + cause.name);
      target().exec("create database " + cause.name);
      Scene scene{source(),
                  target(),
                  cause.name,
                  with(source().conninfo(cause.name), ""),
                  with(target().conninfo(cause.name), ""),
                  {},
                  std::nullopt};
      cause.arrange(scene);
      if (HasFatalFailure()) return;
      expect_message(scene.run(cause.command, cause.options), cause.code, cause.says);
      forget_slots();
    }
  }
  // Slots are few, and a lost one stays in the way of the next row.
  void forget_slots() {
    source().exec(
        "select pg_terminate_backend(active_pid) from pg_replication_slots where active; select pg_sleep(0.1); "
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active");
  }
};

}  // namespace pgbaton::testing
