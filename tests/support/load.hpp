// Writers in the background.
#pragma once
#include "process.hpp"
#include "session.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace pgbaton::testing {

// N threads, each with a connection of its own, running `work` in a loop until stop(). A return of `work` counts as one
// acknowledged unit. An exception ends its thread and is kept in errors().
class Load {
 public:
  struct Turn {
    Session& session;
    int thread;       // 0 …
    long long round;  // 0 … per thread
  };
  using Work = std::function<void(Turn&)>;
  Load(const std::string& conninfo, int threads, Work work);
  Load(const std::string& conninfo, int threads, const std::string& sql);
  ~Load() { stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Waits for the turn in hand; the number of acknowledged units. Repeatable.
  long long stop();
  long long done() const { return done_; }
  bool wait_done(long long units, Milliseconds timeout = Milliseconds(30'000)) const;
  std::vector<std::string> errors();

 private:
  void run(const std::string& conninfo, int thread);
  Work work_;
  std::atomic<bool> stop_{false};
  std::atomic<long long> done_{0};
  std::mutex mutex_;
  std::vector<std::string> errors_;
  std::vector<std::thread> threads_;
};

// pgbench as a child process.
class Pgbench {
 public:
  // pgbench -i; `script` empty runs the standard one.
  static void initialize(const std::string& conninfo, int scale);
  Pgbench(const std::string& conninfo, const std::vector<std::string>& options, const std::string& script = "");
  bool running() { return process_.running(); }
  void stop() { process_.kill(2); }  // as Ctrl-C: statements in flight are cancelled
  // Waits for its end; throws std::runtime_error with the output unless it ended with 0.
  std::string wait(Milliseconds timeout = Milliseconds(180'000));

 private:
  std::string directory_;
  Process process_;
};

}  // namespace pgbaton::testing
