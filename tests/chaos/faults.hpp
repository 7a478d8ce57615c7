// What goes wrong, each with its name, how often it is chosen, and what it does.
#pragma once
#include <span>

#include "replica.hpp"

namespace pgbaton::chaos {

// What a round shares with its faults.
struct Scene {
  Servers& servers;
  Random& random;
  std::vector<std::unique_ptr<Replica>>& replicas;
  std::string database;                       // on the source
  std::optional<testing::Session> long_open;  // a transaction that holds an xid
  std::vector<std::string> prepared;          // gids

  Replica& any() { return *replicas[static_cast<std::size_t>(pick(random, 0, static_cast<int>(replicas.size()) - 1))]; }
  void note(Cause cause) {
    for (auto& replica : replicas) replica->note(cause);
  }
  void rest(int low, int high) const { std::this_thread::sleep_for(testing::Milliseconds(pick(random, low, high))); }
};

struct Fault {
  const char* name;
  int weight;
  void (*strike)(Scene&);
};

std::span<const Fault> all_faults();
const Fault& choose_fault(Random& random);
// Ends the long transactions, open and prepared ones: some committed, some rolled back.
void end_long_transactions(Scene& scene);

}  // namespace pgbaton::chaos
