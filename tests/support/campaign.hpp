// A program that tries random things for as long as it is told to, by a seed: its options, the line that it leaves in a
// file of results, its end. tests/chaos and tests/schemas are two.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pgbaton::testing {

struct Campaign {
  double amount = 1;  // of what the program counts: minutes, schemas
  std::uint64_t seed = 1;
  int first_round = 1;
  int source_major = 15, target_major = 15;
  std::string results;  // the file to append to; "" none
  std::string commit;   // what is tested, for the results
};

struct CampaignOutcome {
  std::vector<std::string> failures;
  std::string text;  // printed above the failures
  std::string json;  // one object on one line, for the results
};

// main(): --UNIT AMOUNT, --seed, --round, --from, --to (majors of the servers), --results and --commit; runs it, prints
// and appends. The exit code: 0 without failures, 1 with some, 2 when it could not be run.
int run_campaign(int count, char** words, const std::string& unit, double amount,
                 const std::function<CampaignOutcome(const Campaign&)>& run);

}  // namespace pgbaton::testing
