// Random schemas through clone, kills and stream: schemas --schemas N --seed S [--round R] [--from 14 --to 17]
// [--results FILE --commit HASH]. Usually started by scripts/fuzz. A schema is a namespace with own types and two to
// four random tables; some twenty share one clone, which is a round. Exit code 0 only when nothing differed.
//
// Schemas, options and transactions follow from the seed and the round; timing is that of real processes.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "round.hpp"
#include "support/campaign.hpp"

namespace {

using namespace pgbaton::schemas;
using pgbaton::testing::Campaign;

constexpr int kSchemasOfRound = 20;

std::string to_json(const Campaign& campaign, const Report& report, double seconds) {
  return nlohmann::json{{"seed", campaign.seed},
                        {"round", campaign.first_round},
                        {"commit", campaign.commit},
                        {"majors", fmt::format("{} to {}", campaign.source_major, campaign.target_major)},
                        {"schemas", report.schemas},
                        {"tables", report.tables},
                        {"starts", report.starts},
                        {"ends", report.ends},
                        {"committed", report.committed},
                        {"seconds", static_cast<int>(seconds)},
                        {"failures", report.failures.size()}}
      .dump();
}

std::string to_text(const Campaign& campaign, const Report& report, double seconds) {
  auto text = fmt::format(
      "\nseed {}: {} schemas with {} tables, {} transactions, {} starts of the tool, {:.0f} s, {} failures\n",
      campaign.seed, report.schemas, report.tables, report.committed, report.starts, seconds, report.failures.size());
  for (const auto& [kind, count] : report.kinds) text += fmt::format("  {:<33}{:>6}\n", kind, count);
  for (const auto& [end, count] : report.ends) text += fmt::format("  {:<33}{:>6}\n", end, count);
  return text;
}

pgbaton::testing::CampaignOutcome run(const Campaign& campaign) {
  const auto begun = std::chrono::steady_clock::now();
  const auto schemas = static_cast<int>(campaign.amount);
  Report report;
  try {
    Servers servers(campaign.source_major, campaign.target_major);
    for (int done = 0, round = campaign.first_round; done < schemas; done += kSchemasOfRound)
      run_round(servers, report, campaign.seed, round++, std::min(kSchemasOfRound, schemas - done));
  } catch (const std::exception& error) {
    report.fail(error.what());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return {report.failures, to_text(campaign, report, seconds), to_json(campaign, report, seconds)};
}

}  // namespace

int main(int count, char** words) {
  return pgbaton::testing::run_campaign(count, words, "schemas", kSchemasOfRound, run);
}
