// Random faults for as long as you like: chaos --minutes N --seed S [--results FILE --commit HASH]. Usually started by
// scripts/chaos. Exit code 0 only when nothing differed and every end of the tool was explained by a fault.
//
// The choice of faults, options and statements follows from the seed; their timing is that of real processes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "round.hpp"
#include "support/campaign.hpp"

namespace {

using namespace pgbaton::chaos;
using pgbaton::testing::Campaign;

std::string to_json(const Campaign& campaign, const Report& report) {
  return nlohmann::json{{"seed", campaign.seed},         {"minutes", campaign.amount},
                        {"commit", campaign.commit},     {"rounds", report.rounds},
                        {"faults", report.faults},       {"starts", report.starts},
                        {"committed", report.committed}, {"differences", report.failures.size()}}
      .dump();
}

std::string to_text(const Campaign& campaign, const Report& report) {
  long long total = 0;
  auto text = fmt::format("\nseed {}: faults survived\n", campaign.seed);
  for (const auto& [name, count] : report.faults) {
    text += fmt::format("  {:<22}{:>6}\n", name, count);
    if (name != "pause") total += count;
  }
  return text +
         fmt::format("{} faults in {} rounds, {} starts of the tool, {} transactions on the source, {} differences\n",
                     total, report.rounds, report.starts, report.committed, report.failures.size());
}

pgbaton::testing::CampaignOutcome run(const Campaign& campaign) {
  Report report;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double, std::ratio<60>>(campaign.amount));
  try {
    Servers servers;
    int round = campaign.first_round;
    do {
      run_round(servers, report, campaign.seed, round++);
    } while (Clock::now() < end);
  } catch (const std::exception& error) {
    report.fail(error.what());
  }
  return {report.failures, to_text(campaign, report), to_json(campaign, report)};
}

}  // namespace

int main(int count, char** words) {
  return pgbaton::testing::run_campaign(count, words, "minutes", 1, run);
}
