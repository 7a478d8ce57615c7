// One round: some twenty random schemas in fresh databases, one clone of all of them under load, killed again and
// again, then peace, catching up, and the comparison.
#pragma once
#include <map>

#include "support/cluster.hpp"
#include "support/tool.hpp"
#include "writer.hpp"

namespace pgbaton::schemas {

struct Servers {
  testing::Cluster source, target;
  Servers(int source_major, int target_major);
};

struct Report {
  long long schemas = 0, tables = 0, committed = 0, starts = 0;
  std::map<std::string, long long> ends;   // how starts of the tool ended: "killed", "failpoint x", "stopped"
  std::map<std::string, long long> kinds;  // tables by identity and by what else they have
  std::vector<std::string> failures;       // differences, ends that nothing explains, statements that were wrong
  void fail(const std::string& what);
};

void run_round(Servers& servers, Report& report, std::uint64_t seed, int number, int schemas);

}  // namespace pgbaton::schemas
