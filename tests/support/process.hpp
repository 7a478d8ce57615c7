// Child processes of a test: no shell, output into files, ended by their own pid when the object goes.
//
// The kernel also ends a child when the thread that started it ends (PR_SET_PDEATHSIG), so that nothing outlives a test
// killed by ctest's timeout: start servers and tools from a thread that lives at least as long as they shall.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pgbaton::testing {

using Milliseconds = std::chrono::milliseconds;

struct ProcessOptions {
  std::vector<std::string> arguments;                                // [0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;      // added to ours, from which PG* are removed
  std::string stdout_file = "/dev/null", stderr_file = "/dev/null";  // truncated first, unless both are the same
  std::string directory;
  bool as_postgres = false;  // when we are root: become user postgres (servers refuse root)
  int death_signal = 9;      // sent when the starting thread ends
};

class Process {
 public:
  Process() = default;
  explicit Process(const ProcessOptions& options);
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  Process& operator=(Process&& other) noexcept;
  ~Process();  // SIGKILL and reap

  int pid() const { return pid_; }
  bool running();
  void kill(int signal) const noexcept;  // nothing when it has ended
  // Exit code, or 128 + signal; nullopt when it still runs after the time.
  std::optional<int> wait(Milliseconds timeout);

 private:
  void destroy() noexcept;
  int pid_ = -1;
  std::optional<int> status_;
};

// Runs to the end; throws std::runtime_error with the output when the exit code is not 0.
void run_checked(ProcessOptions options, Milliseconds timeout = Milliseconds(60'000));
std::string read_file(const std::string& path);
// A file of tests/data; throws when there is none.
std::string read_test_data(const std::string& name);
// A folder of this process under /tmp, removed at exit; those left by processes that are gone are swept. Owned by the
// user that servers run as, and writable for us.
std::string make_run_directory(const std::string& stem);
// The folder that all test processes of this user share (server templates).
std::string shared_directory();
void remove_tree(const std::string& path) noexcept;
// The account that servers run as: (uid, gid) of postgres when we are root, else our own.
std::pair<unsigned, unsigned> server_account();

}  // namespace pgbaton::testing
