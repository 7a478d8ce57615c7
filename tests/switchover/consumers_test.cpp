// Consumers of change events that change sides with the application: the recipes of scripts/recipes, as README has
// them, with pg_recvlogical. Strict on the way forth, overlap on the way back.
#include <algorithm>
#include <map>
#include <ranges>
#include <regex>

#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

class ConsumersTest : public PairTest {
 protected:
  ClusterOptions target_options() const override { return {.settings = {{"wal_level", "logical"}}}; }
  void SetUp() override {
    PairTest::SetUp();
    source().exec("create table account (id bigint primary key, n int not null)");
    clone_until_caught_up();
    directory_ = make_run_directory("consumers");
    script("start", "nohup " + Cluster::bin_directory(15) +
                        "/pg_recvlogical -d \"$1\" --slot events --start -s 1 -F 1 -f \"$2\" </dev/null >>" +
                        directory_ + "/consumers 2>&1 & echo $! > \"$2.pid\"");
    script("stop", "kill -INT $(cat \"$1.pid\") 2>/dev/null || true");
  }
  void TearDown() override {
    for (const auto* file : {"first", "second", "third"}) run_quietly(directory_ + "/stop " + path(file));
    PairTest::TearDown();
  }
  static void run_quietly(const std::string& command) { std::ignore = std::system(command.c_str()); }
  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  void script(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << "#!/bin/sh\nPATH=" << Cluster::bin_directory(15) << ":$PATH\n" << text << "\n";
    run_checked({.arguments = {"chmod", "755", path(name)}});
  }
  // What a service manager would do.
  std::string started(Cluster& server, const std::string& file) const {
    return path("start") + " '" + server.conninfo() + "' " + path(file);
  }
  std::string stopped(const std::string& file) const { return path("stop") + " " + path(file); }
  static std::string recipe(const std::string& name) { return std::string(PGBATON_TEST_RECIPES) + "/" + name; }
  ToolResult switch_over(const std::map<std::string, std::string>& hooks, const Arguments& more = {},
                         const Environment& environment = {}) {
    std::ofstream config(path("config.yaml"));
    config << "switchover:\n  gap: 1000\n  hooks:\n";
    for (const auto& [step, command] : hooks) config << "    " << step << ": >-\n      " << command << "\n";
    config.close();
    Arguments all{"--config", path("config.yaml")};
    all.insert(all.end(), more.begin(), more.end());
    return run("switchover", all, environment, Milliseconds(120'000));
  }
  // Keys in the order of their events; of test_decoding's lines those of this table.
  std::vector<long long> events(const std::string& file) const {
    std::vector<long long> keys;
    std::ifstream in(path(file));
    const std::regex insert(R"(^table public\.account: INSERT: id\[bigint\]:(-?\d+) )");
    std::smatch found;
    for (std::string line; std::getline(in, line);)
      if (std::regex_search(line, found, insert)) keys.push_back(std::stoll(found[1]));
    return keys;
  }
  static std::vector<long long> rows(Cluster& server) {
    std::vector<long long> keys;
    for (const auto& row : server.query("select id from account where id > 0 order by id"))
      keys.push_back(std::stoll(row.at(0).value()));
    return keys;
  }
  bool has_all(const std::string& file, const std::vector<long long>& keys) const {
    const auto deadline = std::chrono::steady_clock::now() + Milliseconds(30'000);
    while (std::chrono::steady_clock::now() < deadline) {
      const auto seen = events(file);
      if (std::ranges::all_of(keys, [&](auto key) { return std::ranges::find(seen, key) != seen.end(); })) return true;
      std::this_thread::sleep_for(Milliseconds(100));
    }
    return false;
  }
  std::string directory_;
};

TEST_F(ConsumersTest, StrictHasEachEventOnceInOrderAndOverlapHasEachAtLeastOnce) {
  source().exec("select pg_create_logical_replication_slot('events', 'test_decoding')");
  run_quietly(started(source(), "first"));
  Clients clients({source().conninfo(), target().conninfo()}, 1, 100, path("acknowledged"));
  ASSERT_TRUE(clients.wait_acknowledged(50));
  const std::map<std::string, std::string> strict{
      {"barrier", recipe("slot-drained.sh") + " events && " + stopped("first")},
      {"finish", recipe("slot-create.sh") + " events test_decoding"},
      {"send", started(target(), "second")},
      {"clean-up", recipe("slot-drop.sh") + " old events"},
      {"given-up", recipe("slot-drop.sh") + " new events; " + started(source(), "first.more")}};
  // Given up after the consumer was stopped: it goes on where it was, and nothing is left on the other side.
  const auto failed = switch_over(strict, {}, {{"PGBATON_FAILPOINTS", "switchover_before_flip=stop"}});
  EXPECT_EQ(failed.code, 1) << failed;
  EXPECT_EQ(target().number("select count(*) from pg_replication_slots where slot_name = 'events'"), 0) << failed;
  ASSERT_TRUE(clients.wait_acknowledged(20));
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  auto again = strict;
  again["barrier"] = recipe("slot-drained.sh") + " events && " + stopped("first.more");
  const auto done = switch_over(again);
  ASSERT_EQ(done.code, 0) << done;
  ASSERT_TRUE(clients.wait_acknowledged(50));
  clients.stop();
  EXPECT_EQ(source().number("select count(*) from pg_replication_slots where slot_name = 'events'"), 0);
  const auto written = rows(target());
  ASSERT_TRUE(has_all("second", {written.back()})) << read_file(path("consumers"));
  auto seen = events("first");
  for (const auto* file : {"first.more", "second"}) {
    const auto more = events(file);
    EXPECT_GT(more.size(), 10U) << file;
    seen.insert(seen.end(), more.begin(), more.end());
  }
  EXPECT_EQ(seen, written) << "each once, in order";
  // Back again, with an overlap.
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  Clients others({source().conninfo(), target().conninfo()}, 1, 100, path("acknowledged2"), 1'000'000);
  ASSERT_TRUE(others.wait_acknowledged(30));
  const auto back = switch_over({{"prepare", recipe("slot-create.sh") + " events test_decoding"},
                                 {"send", started(source(), "third")},
                                 {"clean-up", recipe("slot-drained.sh") + " events && " + stopped("second") + " && " +
                                                  recipe("slot-drop.sh") + " old events"},
                                 {"given-up", recipe("slot-drop.sh") + " new events"}},
                                {"--rollback"});
  ASSERT_EQ(back.code, 0) << back;
  ASSERT_TRUE(others.wait_acknowledged(30));
  others.stop();
  const auto all = rows(source());
  ASSERT_TRUE(has_all("third", {all.back()})) << read_file(path("consumers"));
  const auto before = events("second"), after = events("third");
  for (const auto key : all | std::views::filter([](auto id) { return id > 1'000'000; }))
    EXPECT_TRUE(std::ranges::find(before, key) != before.end() || std::ranges::find(after, key) != after.end()) << key;
  EXPECT_EQ(target().number("select count(*) from pg_replication_slots where slot_name = 'events'"), 0);
}

}  // namespace
}  // namespace pgbaton::testing
