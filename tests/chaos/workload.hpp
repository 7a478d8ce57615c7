// The application on the source: one writer for each shape of load, which shrugs off restarts of its server.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/cluster.hpp"

namespace pgbaton::chaos {

using Random = std::mt19937_64;
inline int pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}
inline bool chance(Random& random, int percent) {
  return pick(random, 1, 100) <= percent;
}

// The tables of every shape, filled: about 35 MB.
void create_tables(const testing::Cluster& source, const std::string& database);

// A thread per shape from the beginning to stop(). What a server that restarts does to a statement is no error;
// anything that the statement itself is to blame for is kept in errors().
class Workload {
 public:
  Workload(const std::string& conninfo, std::uint64_t seed);
  ~Workload() { stop(); }
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  void stop();
  long long committed() const { return committed_; }
  std::vector<std::string> errors();

 private:
  void run(const std::string& conninfo, std::size_t shape, std::uint64_t seed);
  void keep(const std::string& error);
  std::atomic<bool> stop_{false};
  std::atomic<long long> committed_{0};
  std::mutex mutex_;
  std::vector<std::string> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace pgbaton::chaos
