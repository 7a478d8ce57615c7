// Random faults for as long as you like: chaos --minutes N --seed S [--results FILE --commit HASH]. Usually started by
// scripts/chaos. Exit code 0 only when nothing differed and every end of the tool was explained by a fault.
//
// The choice of faults, options and statements follows from the seed; their timing is that of real processes.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "round.hpp"

namespace {

using namespace pgbaton::chaos;

struct Settings {
  double minutes = 1;
  std::uint64_t seed = 1;
  int first_round = 1;
  std::string results, commit;
};

Settings read_settings(int count, char** words) {
  Settings settings;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i], value = words[i + 1];
    if (name == "--minutes")
      settings.minutes = std::stod(value);
    else if (name == "--seed")
      settings.seed = std::stoull(value);
    else if (name == "--round")
      settings.first_round = std::stoi(value);
    else if (name == "--results")
      settings.results = value;
    else if (name == "--commit")
      settings.commit = value;
    else
      throw std::invalid_argument("unknown option " + name);
  }
  return settings;
}

void append_result(const Settings& settings, const Report& report) {
  if (settings.results.empty()) return;
  const nlohmann::json line{{"seed", settings.seed},         {"minutes", settings.minutes},
                            {"commit", settings.commit},     {"rounds", report.rounds},
                            {"faults", report.faults},       {"starts", report.starts},
                            {"committed", report.committed}, {"differences", report.failures.size()}};
  std::ofstream out(settings.results, std::ios::app);
  out << line.dump() << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + settings.results);
}

void print(const Settings& settings, const Report& report) {
  long long total = 0;
  std::cout << fmt::format("\nseed {}: faults survived\n", settings.seed);
  for (const auto& [name, count] : report.faults) {
    std::cout << fmt::format("  {:<22}{:>6}\n", name, count);
    if (name != "pause") total += count;
  }
  std::cout << fmt::format(
      "{} faults in {} rounds, {} starts of the tool, {} transactions on the source, {} differences\n", total,
      report.rounds, report.starts, report.committed, report.failures.size());
  for (const auto& failure : report.failures) std::cout << "FAILED: " << failure << "\n";
  std::cout.flush();
}

}  // namespace

int main(int count, char** words) try {
  const auto settings = read_settings(count, words);
  Report report;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double, std::ratio<60>>(settings.minutes));
  try {
    Servers servers;
    int round = settings.first_round;
    do {
      run_round(servers, report, settings.seed, round++);
    } while (Clock::now() < end);
  } catch (const std::exception& error) {
    report.fail(error.what());
  }
  print(settings, report);
  append_result(settings, report);
  return report.failures.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "ERROR: " << error.what() << "\n";
  return 2;
}
