// One replica under test: the tool's process, what may explain its end, and starting it again.
#pragma once
#include <chrono>
#include <optional>
#include <set>

#include "support/proxy.hpp"
#include "support/tool.hpp"
#include "workload.hpp"

namespace pgbaton::chaos {

using Clock = std::chrono::steady_clock;
using testing::Milliseconds;

// Two servers and a relay in front of each, through which the tool goes so that connections can be cut.
struct Servers {
  testing::Cluster source, target;
  testing::Proxy source_proxy{{source.port()}}, target_proxy{{target.port()}};
  Servers();
};

struct Report {
  std::map<std::string, long long> faults;
  long long rounds = 0, starts = 0, committed = 0;
  std::vector<std::string> failures;  // differences and ends that nothing explains
  void fail(const std::string& what);
};

// What may end the tool, and with which exit code.
enum class Cause { lost_connection, blocked_slot, taken_over, altered, asked };

class Replica {
 public:
  Replica(Servers& servers, Report& report, std::string name, std::string source_database, std::string target_database,
          testing::Arguments options);

  void start();
  void start(const testing::Arguments& more);
  testing::Tool& tool() { return *tool_; }
  bool running() { return tool_ && tool_->running(); }
  // Looks whether it has ended; if so, whether that is explained, and starts it again.
  void supervise();
  // Waits for an end that was asked for; the exit code must be one of these.
  void expect_end(const std::set<int>& codes, Milliseconds timeout = Milliseconds(60'000));
  testing::ToolResult run(const std::string& command, const testing::Arguments& more = {},
                          Milliseconds timeout = Milliseconds(60'000)) const;
  // A fault from now on: it explains an end of a process that runs now, or is started within some seconds.
  void note(Cause cause) { causes_[cause] = Clock::now(); }
  // Keeps the process of another start (after --take-over) as the replica's own, and gives the old one out.
  testing::Tool exchange(testing::Tool other);
  testing::Tool launch(const testing::Arguments& more);

  const std::string& name() const { return name_; }
  const std::string& target_database() const { return target_database_; }
  const std::string& source_database() const { return source_database_; }
  Servers& servers() { return servers_; }
  Report& report() { return report_; }
  std::string describe() const;

 private:
  testing::Arguments arguments(const std::string& command, const testing::Arguments& more) const;
  bool explained(int code) const;
  bool recent(Cause cause) const;
  void judge(const testing::ToolResult& result);
  void repeat_alter();

  Servers& servers_;
  Report& report_;
  const std::string name_, source_database_, target_database_;
  const testing::Arguments options_;
  std::optional<testing::Tool> tool_;
  Clock::time_point started_;
  std::map<Cause, Clock::time_point> causes_;
  int starts_in_a_row_ = 0;
};

}  // namespace pgbaton::chaos
