// The application: connections that run random transactions side by side until stop().
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "statements.hpp"
#include "support/session.hpp"

namespace pgbaton::schemas {

// All tables of one schema; own types and functions need its search_path.
struct Schema {
  std::string name;  // quoted
  std::vector<Table> tables;
};

// Runs the steps of one transaction. An error inside is answered as an application does: back to its savepoint, or to
// nothing. Errors that chance explains (a key that exists, a deadlock) are none; others are thrown.
// True when it was committed.
bool run_transaction(testing::Session& session, const Transaction& transaction);

class Writers {
 public:
  Writers(const std::string& conninfo, const std::vector<Schema>& schemas, std::uint64_t seed, int connections);
  ~Writers() { stop(); }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  void stop();
  // Half as many transactions: for a stream that is never level, because it applies change by change, or peeks.
  void slow_down() { pause_milliseconds_ = 2 * pause_milliseconds_; }
  long long committed() const { return committed_; }
  struct Failure {
    int count = 0;
    std::string example;
  };
  // What a statement is itself to blame for, by its message: a mistake of this program.
  std::map<std::string, Failure> errors();

 private:
  void run(const std::string& conninfo, std::uint64_t seed);
  const std::vector<Schema>& schemas_;
  std::atomic<bool> stop_{false};
  std::atomic<int> pause_milliseconds_{25};  // at most, between transactions: the point is the mixture, not the load
  std::atomic<long long> committed_{0};
  std::mutex mutex_;
  std::map<std::string, Failure> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace pgbaton::schemas
