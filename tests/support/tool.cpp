#include "tool.hpp"

#include <signal.h>

#include <ostream>
#include <thread>

namespace pgbaton::testing {
namespace {

ProcessOptions command(const Arguments& arguments, const Environment& environment, const std::string& directory,
                       const std::string& terminal) {
  ProcessOptions options;
  options.arguments = {Tool::path()};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.environment = environment;
  options.stdout_file = directory + "/out";
  options.stderr_file = terminal.empty() ? directory + "/err" : terminal;
  options.directory = directory;
  return options;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ToolResult& result) {
  return out << "exit code " << result.code << " after " << result.elapsed.count() << " ms\n--- stdout\n"
             << result.out << "\n--- stderr\n"
             << result.err << "\n---";
}

std::string Tool::path() {
  const char* given = std::getenv("PGBATON_TEST_TOOL");
  return given ? given : PGBATON_TEST_EXECUTABLE;
}

Tool::Tool(const Arguments& arguments, const Environment& environment, const std::string& terminal)
    : directory_(make_run_directory("tool")),
      process_(command(arguments, environment, directory_, terminal)),
      started_(std::chrono::steady_clock::now()) {}

ToolResult Tool::run(const Arguments& arguments, Milliseconds timeout, const Environment& environment) {
  return Tool(arguments, environment).wait(timeout);
}

ToolResult Tool::wait(Milliseconds timeout) {
  ToolResult result;
  const auto code = process_.wait(timeout);
  if (!code) {
    process_.kill(SIGKILL);
    process_.wait(Milliseconds(10'000));
  }
  result.code = code.value_or(-1);
  result.elapsed = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - started_);
  result.out = out();
  result.err = err();
  return result;
}

ToolResult Tool::kill_hard() {
  process_.kill(SIGKILL);
  return wait(Milliseconds(10'000));
}

namespace {

template <typename Seen>
bool wait_for(Tool& tool, Milliseconds timeout, const Seen& seen) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const bool ended = !tool.running();
    if (seen(tool.err())) return true;
    if (ended || std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(10));
  }
}

}  // namespace

bool Tool::wait_for_stderr(const std::string& pattern, Milliseconds timeout) {
  const std::regex expression(pattern);
  return wait_for(*this, timeout, [&](const std::string& text) { return std::regex_search(text, expression); });
}

bool Tool::wait_for_stderr(const std::vector<std::string>& in_order, Milliseconds timeout) {
  return wait_for(*this, timeout, [&](const std::string& text) {
    std::size_t from = 0;
    for (const auto& part : in_order) {
      from = text.find(part, from);
      if (from == std::string::npos) return false;
      from += part.size();
    }
    return true;
  });
}

}  // namespace pgbaton::testing
