// The pgbaton executable as a black box: run to its end, or in the background with signals.
#pragma once
#include "process.hpp"

#include <regex>

namespace pgbaton::testing {

struct ToolResult {
  int code = -1;  // 128 + signal when it was killed; -1 when it had to be killed because the time was over
  std::string out, err;
  Milliseconds elapsed{0};
};
// Everything there is to know, for failure messages: EXPECT_EQ(r.code, 0) << r;
std::ostream& operator<<(std::ostream& out, const ToolResult& result);

using Arguments = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

class Tool {
 public:
  // Starts it. `environment` is added to ours; PG* variables of ours are removed.
  // stderr goes to `terminal` when one is given (Terminal::device()).
  explicit Tool(const Arguments& arguments, const Environment& environment = {}, const std::string& terminal = "");
  Tool(Tool&&) = default;
  Tool& operator=(Tool&&) = default;

  static ToolResult run(const Arguments& arguments, Milliseconds timeout = Milliseconds(120'000),
                        const Environment& environment = {});
  static std::string path();

  bool running() { return process_.running(); }
  int pid() const { return process_.pid(); }
  void kill(int signal) { process_.kill(signal); }
  // Waits for the end and hands everything out; kills it when the time is over (code -1).
  ToolResult wait(Milliseconds timeout = Milliseconds(120'000));
  // SIGKILL and wait.
  ToolResult kill_hard();
  std::string err() const { return read_file(directory_ + "/err"); }
  std::string out() const { return read_file(directory_ + "/out"); }
  // False when the process ended or the time is over without a match.
  bool wait_for_stderr(const std::string& pattern, Milliseconds timeout = Milliseconds(30'000));
  // The texts, one after the other (a regular expression over many lines overflows the stack of std::regex).
  bool wait_for_stderr(const std::vector<std::string>& in_order, Milliseconds timeout = Milliseconds(30'000));

 private:
  std::string directory_;
  Process process_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace pgbaton::testing
