#include "replica.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <iostream>

namespace pgbaton::chaos {

using testing::Arguments;
using testing::Tool;
using testing::ToolResult;

namespace {

// A fault has its effect a while later: a connection that died during a start, a lease that was just let go.
constexpr std::chrono::seconds kAftermath{15};
constexpr std::size_t kTail = 3000;

std::string tail(const std::string& text) {
  return text.size() <= kTail ? text : "…" + text.substr(text.size() - kTail);
}

const testing::ClusterOptions kOptions{.settings = {{"wal_sender_timeout", "10s"}, {"max_wal_size", "1GB"}}};

}  // namespace

Servers::Servers() : source(kOptions), target(kOptions) {}

void Report::fail(const std::string& what) {
  failures.push_back(what);
  std::cout << "  FAILED: " << what << std::endl;
}

Replica::Replica(Servers& servers, Report& report, std::string name, std::string source_database,
                 std::string target_database, Arguments options)
    : servers_(servers),
      report_(report),
      name_(std::move(name)),
      source_database_(std::move(source_database)),
      target_database_(std::move(target_database)),
      options_(std::move(options)) {}

std::string Replica::describe() const {
  return fmt::format("{} ({})", name_, fmt::join(options_, " "));
}

Arguments Replica::arguments(const std::string& command, const Arguments& more) const {
  Arguments all{command,
                "--source",
                servers_.source_proxy.conninfo(source_database_),
                "--target",
                servers_.target_proxy.conninfo(target_database_),
                "--name",
                name_};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Tool Replica::launch(const Arguments& more) {
  Arguments all = options_;
  all.insert(all.end(), {"--follow", "--progress", "none", "--slot-wait", "8s"});
  all.insert(all.end(), more.begin(), more.end());
  ++report_.starts;
  // Steps so small, and changes of readers at so little lag, that a round has many of them.
  return Tool(arguments("clone", all), {{"PGBATON_FAILPOINTS", "peek_small_steps=on"}});
}

void Replica::start() {
  start({});
}

void Replica::start(const Arguments& more) {
  tool_.reset();
  started_ = Clock::now();
  tool_.emplace(launch(more));
}

Tool Replica::exchange(Tool other) {
  Tool old = std::move(*tool_);
  tool_.emplace(std::move(other));
  started_ = Clock::now();
  return old;
}

ToolResult Replica::run(const std::string& command, const Arguments& more, Milliseconds timeout) const {
  return Tool::run(arguments(command, more), timeout);
}

bool Replica::recent(Cause cause) const {
  const auto found = causes_.find(cause);
  return found != causes_.end() && found->second + kAftermath > started_;
}

bool Replica::explained(int code) const {
  switch (code) {
    case 0:
    case 1:
      return recent(Cause::lost_connection) || recent(Cause::asked);
    case 5:
      return recent(Cause::blocked_slot) || recent(Cause::lost_connection);
    case 7:
      return recent(Cause::taken_over) || recent(Cause::lost_connection);
    case 8:
      return causes_.contains(Cause::altered);
  }
  return false;
}

// What the message of exit 8 asks a person to do.
void Replica::repeat_alter() {
  servers_.target.exec("alter table altered alter n type bigint", target_database_);
}

void Replica::judge(const ToolResult& result) {
  std::cout << fmt::format("    {} ended with {}", name_, result.code) << std::endl;
  if (!explained(result.code))
    report_.fail(
        fmt::format("{} ended with {}, which no fault explains:\n{}", describe(), result.code, tail(result.err)));
  if (result.code == 8 && causes_.contains(Cause::altered)) repeat_alter();
}

void Replica::supervise() {
  if (running()) {
    if (Clock::now() - started_ > std::chrono::seconds(5)) starts_in_a_row_ = 0;
    return;
  }
  if (tool_) judge(tool_->wait());
  if (++starts_in_a_row_ > 25) throw std::runtime_error(describe() + " does not recover");
  if (starts_in_a_row_ > 5) std::this_thread::sleep_for(Milliseconds(500));
  start();
}

void Replica::expect_end(const std::set<int>& codes, Milliseconds timeout) {
  if (!tool_) return;
  const auto result = tool_->wait(timeout);
  tool_.reset();
  if (result.code == 128 + SIGTERM && result.err.empty()) return;  // it had not yet begun to listen
  if (!codes.contains(result.code) && !explained(result.code))
    report_.fail(fmt::format("{} ended with {} where {} was due:\n{}", describe(), result.code,
                             fmt::join(codes, " or "), tail(result.err)));
}

}  // namespace pgbaton::chaos
