#include "pair.hpp"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace pgbaton::testing {

void PairTest::SetUp() {
  auto first = source_options(), second = target_options();
  first.start = second.start = false;
  source_ = std::make_unique<Cluster>(first);
  source_->launch();
  target_ = std::make_unique<Cluster>(second);
  target_->launch();
  source_->wait_ready();
  target_->wait_ready();
}

void PairTest::TearDown() {
  if (HasFailure() && std::getenv("PGBATON_TEST_LOGS") != nullptr) {
    std::cerr << "--- source log\n" << source_->log() << "--- target log\n" << target_->log();
  }
  target_.reset();
  source_.reset();
}

Arguments PairTest::arguments(const std::string& command, const Arguments& more) const {
  Arguments result{command, "--source", source_->conninfo(), "--target", target_->conninfo()};
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

ToolResult PairTest::run(const std::string& command, const Arguments& more, const Environment& environment,
                         Milliseconds timeout) {
  return Tool::run(arguments(command, more), timeout, environment);
}

Tool PairTest::start(const std::string& command, const Arguments& more, const Environment& environment) {
  return Tool(arguments(command, more), environment);
}

void PairTest::clone_until_caught_up(const Arguments& more) {
  Arguments all{"--until", "caught-up"};
  all.insert(all.end(), more.begin(), more.end());
  const auto result = run("clone", all);
  ASSERT_EQ(result.code, 0) << result;
}

void PairTest::expect_equal(const CompareOptions& options) {
  EXPECT_THAT(differences(source_->conninfo(), target_->conninfo(), options), ::testing::IsEmpty());
}

void PairTest::expect_equal_after_drain(const CompareOptions& options) {
  const auto result = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(result.code, 0) << result;
  expect_equal(options);
}

void PairTest::create_marker() {
  source_->exec("create table marker (id bigint generated always as identity primary key)");
}

::testing::AssertionResult PairTest::marker_arrives(Milliseconds timeout) {
  const auto id = source_->scalar("insert into marker default values returning id");
  if (target_->wait_until("select count(*) from marker where id = " + id, "1", timeout)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "a row committed on the source did not arrive in " << timeout.count()
                                       << " ms";
}

void PairTest::create_filled(const std::string& table, int rows, int width) {
  source_->exec("create table " + table + " (id bigint primary key, n int not null default 0, pad text);" +
                "insert into " + table + " select i, 0, (select string_agg(md5((i * 1000 + j)::text), '') from " +
                "generate_series(1, " + std::to_string((width + 31) / 32) + ") j) from generate_series(1, " +
                std::to_string(rows) + ") i");
}

bool PairTest::wait_copying(const std::string& table, long long rows, Milliseconds timeout) {
  return target_->wait_until("select exists (select from pg_stat_progress_copy where relid = to_regclass('" + table +
                                 "') and tuples_processed >= " + std::to_string(rows) + ")",
                             "t", timeout);
}

bool PairTest::wait_phase(const std::string& phases, Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (("|" + phases + "|").find("|" + status_field("phase") + "|") != std::string::npos) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(50));
  }
}

::testing::AssertionResult PairTest::wait_for(const std::string& what, const std::string& timeout) {
  const auto result = run("wait", {"--for", what, "--timeout", timeout});
  if (result.code == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "wait --for " << what << ": " << result;
}

void PairTest::stop_follower(Tool& follower) {
  follower.kill(SIGTERM);
  const auto result = follower.wait(Milliseconds(30'000));
  EXPECT_EQ(result.code, 0) << result;
}

std::string PairTest::status_field(const std::string& path) {
  const auto result = Tool::run(arguments("status", {"--json"}), Milliseconds(20'000));
  if (result.code != 0) return "exit " + std::to_string(result.code);
  auto node = nlohmann::json::parse(result.out, nullptr, false);
  std::istringstream names(path);
  for (std::string name; std::getline(names, name, '.');) {
    if (!node.is_object() || !node.contains(name)) return "";
    node = nlohmann::json(node[name]);
  }
  return node.is_string() ? node.get<std::string>() : node.dump();
}

}  // namespace pgbaton::testing
