// Running a child program: no shell, captured output, ended with us and never left behind.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace pgbaton::copy {

struct Command {
  std::string program;                                           // a path; no search
  std::vector<std::string> arguments;                            // without argv[0]
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::size_t output_bytes = SIZE_MAX;                           // of stdout that are kept: the last ones
};

struct Outcome {
  int exit_code = 0;   // 128 + signal when it was killed
  std::string output;  // the last Command::output_bytes of stdout
  std::string errors;  // the last kErrorsBytes of stderr
};

// More stderr than this is noise; the reason for a failure stands at its end.
inline constexpr std::size_t kErrorsBytes = 16 * 1024;

// Runs and waits, also for what it leaves running with its stdout or stderr. stdin is empty. When a stop is requested
// the child's process group gets SIGTERM, and SIGKILL three seconds later; then Error(failed) "interrupted". The kernel
// ends it when the calling thread ends. Throws Error(failed) when the program cannot be started; an exit code other
// than 0 is the caller's to judge.
Outcome run_command(const Command& command, const std::stop_token& stop);

}  // namespace pgbaton::copy
