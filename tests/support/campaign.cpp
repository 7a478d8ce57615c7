#include "campaign.hpp"

#include <fstream>
#include <iostream>
#include <stdexcept>

namespace pgbaton::testing {
namespace {

void set_option(Campaign& campaign, const std::string& unit, const std::string& name, const std::string& value) {
  if (name == "--" + unit)
    campaign.amount = std::stod(value);
  else if (name == "--seed")
    campaign.seed = std::stoull(value);
  else if (name == "--round")
    campaign.first_round = std::stoi(value);
  else if (name == "--from")
    campaign.source_major = std::stoi(value);
  else if (name == "--to")
    campaign.target_major = std::stoi(value);
  else if (name == "--results")
    campaign.results = value;
  else if (name == "--commit")
    campaign.commit = value;
  else
    throw std::invalid_argument("unknown option " + name);
}

void append_result(const Campaign& campaign, const std::string& json) {
  if (campaign.results.empty()) return;
  std::ofstream out(campaign.results, std::ios::app);
  out << json << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + campaign.results);
}

}  // namespace

int run_campaign(int count, char** words, const std::string& unit, double amount,
                 const std::function<CampaignOutcome(const Campaign&)>& run) try {
  Campaign campaign;
  campaign.amount = amount;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (i + 1 == count) throw std::invalid_argument(name + " needs a value");
    set_option(campaign, unit, name, words[i + 1]);
  }
  const auto outcome = run(campaign);
  std::cout << outcome.text;
  for (const auto& failure : outcome.failures) std::cout << "FAILED: " << failure << "\n";
  std::cout.flush();
  append_result(campaign, outcome.json);
  return outcome.failures.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "ERROR: " << error.what() << "\n";
  return 2;
}

}  // namespace pgbaton::testing
