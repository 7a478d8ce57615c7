// One round: fresh databases, load, replicas, faults; then peace, catching up, and the comparison.
#pragma once
#include "replica.hpp"

namespace pgbaton::chaos {

// Throws when something does not recover. Differences and unexplained ends go into the report.
void run_round(Servers& servers, Report& report, std::uint64_t seed, int number);

}  // namespace pgbaton::chaos
