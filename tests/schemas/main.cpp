// Random schemas through clone, kills and stream: schemas --schemas N --seed S [--round R] [--from 14 --to 17]
// [--results FILE --commit HASH]. Usually started by scripts/fuzz. A schema is a namespace with own types and two to
// four random tables; some twenty share one clone, which is a round. Exit code 0 only when nothing differed.
//
// Schemas, options and transactions follow from the seed and the round; timing is that of real processes.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "round.hpp"

namespace {

using namespace pgbaton::schemas;

constexpr int kSchemasOfRound = 20;

struct Settings {
  int schemas = kSchemasOfRound;
  std::uint64_t seed = 1;
  int first_round = 1;
  int source_major = 15, target_major = 15;
  std::string results, commit;
};

Settings read_settings(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (i + 1 == count) throw std::invalid_argument(name + " needs a value");
    const std::string value = words[i + 1];
    if (name == "--schemas")
      settings.schemas = std::stoi(value);
    else if (name == "--seed")
      settings.seed = std::stoull(value);
    else if (name == "--round")
      settings.first_round = std::stoi(value);
    else if (name == "--from")
      settings.source_major = std::stoi(value);
    else if (name == "--to")
      settings.target_major = std::stoi(value);
    else if (name == "--results")
      settings.results = value;
    else if (name == "--commit")
      settings.commit = value;
    else
      throw std::invalid_argument("unknown option " + name);
  }
  return settings;
}

void append_result(const Settings& settings, const Report& report, double seconds) {
  if (settings.results.empty()) return;
  const nlohmann::json line{{"seed", settings.seed},
                            {"round", settings.first_round},
                            {"commit", settings.commit},
                            {"majors", fmt::format("{} to {}", settings.source_major, settings.target_major)},
                            {"schemas", report.schemas},
                            {"tables", report.tables},
                            {"starts", report.starts},
                            {"ends", report.ends},
                            {"committed", report.committed},
                            {"seconds", static_cast<int>(seconds)},
                            {"failures", report.failures.size()}};
  std::ofstream out(settings.results, std::ios::app);
  out << line.dump() << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + settings.results);
}

void print(const Settings& settings, const Report& report, double seconds) {
  std::cout << fmt::format(
      "\nseed {}: {} schemas with {} tables, {} transactions, {} starts of the tool, {:.0f} s, {} failures\n",
      settings.seed, report.schemas, report.tables, report.committed, report.starts, seconds, report.failures.size());
  for (const auto& [kind, count] : report.kinds) std::cout << fmt::format("  identity {:<24}{:>6}\n", kind, count);
  for (const auto& [end, count] : report.ends) std::cout << fmt::format("  {:<33}{:>6}\n", end, count);
  for (const auto& failure : report.failures) std::cout << "FAILED: " << failure << "\n";
  std::cout.flush();
}

}  // namespace

int main(int count, char** words) try {
  const auto settings = read_settings(count, words);
  const auto begun = std::chrono::steady_clock::now();
  Report report;
  try {
    Servers servers(settings.source_major, settings.target_major);
    for (int done = 0, round = settings.first_round; done < settings.schemas; done += kSchemasOfRound)
      run_round(servers, report, settings.seed, round++, std::min(kSchemasOfRound, settings.schemas - done));
  } catch (const std::exception& error) {
    report.fail(error.what());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  print(settings, report, seconds);
  append_result(settings, report, seconds);
  return report.failures.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "ERROR: " << error.what() << "\n";
  return 2;
}
