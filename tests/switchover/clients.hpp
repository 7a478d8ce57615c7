// The application of the tests: writers that keep a file of what was acknowledged to them, and know both servers.
#pragma once
#include <fstream>
#include <mutex>
#include <set>

#include "support/pair.hpp"

namespace pgbaton::testing {

// Each writer inserts rows with keys of its own into `account` at a pace, where it may: a refusal or a lost connection
// sends it to the other server. Every acknowledged key is written to a file before the next one is tried.
class Clients {
 public:
  // Keys above `first`: none is written twice.
  Clients(std::vector<std::string> servers, int writers, int per_second, const std::string& file, long long first = 0);
  ~Clients() { stop(); }
  Clients(const Clients&) = delete;
  void stop();

  long long acknowledged() const { return acknowledged_; }
  bool wait_acknowledged(long long more, Milliseconds timeout = Milliseconds(60'000)) const;
  // The longest time that a writer waited between two acknowledged writes.
  Milliseconds longest_pause() const { return Milliseconds(longest_.load()); }
  // Keys of the file that are not in `account` of this server, as a sentence; "" when none.
  static std::string lost(const std::string& file, Cluster& server);
  std::vector<std::string> refusals();

 private:
  void write(int writer);
  std::vector<std::string> servers_;
  std::chrono::microseconds interval_;
  long long first_;
  std::ofstream out_;
  std::mutex mutex_;
  std::vector<std::string> refusals_;
  std::atomic<bool> stop_{false};
  std::atomic<long long> acknowledged_{0}, longest_{0};
  std::vector<std::thread> threads_;
};

// Waits until the process has stopped itself at its failpoint; false when it has ended without having met it.
bool is_frozen(const Tool& tool);
// Whether a client may write there now.
bool takes_writes(Cluster& server);
// Fails the test unless exactly one of the two may be written, five seconds from now at the latest.
void expect_only(Cluster& writable, Cluster& closed, const std::string& after);

}  // namespace pgbaton::testing
