// A benchmark, not a test: what verify costs in time, measured against the least that any comparison of all rows with a
// program of its own would have to do, a COPY of the table out of both sides at once.
//
//   build/tests/pg_tests --gtest_also_run_disabled_tests --gtest_filter='VerifyBenchmark.*'
//
// PGBATON_BENCH_SCALE: of pgbench, 100,000 rows each; default 50.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

// Reads every row and throws it away.
void copy_out(const Cluster& cluster, const std::string& table) {
  auto session = cluster.session();
  auto* begun = PQexec(session.get(), ("copy " + table + " to stdout").c_str());
  EXPECT_EQ(PQresultStatus(begun), PGRES_COPY_OUT) << PQerrorMessage(session.get());
  PQclear(begun);
  char* row = nullptr;
  while (PQgetCopyData(session.get(), &row, 0) > 0) PQfreemem(row);
}

class VerifyBenchmark : public PairTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"shared_buffers", "1GB"}}}; }
  ClusterOptions target_options() const override { return {.settings = {{"shared_buffers", "1GB"}}}; }
  double copy_both() {
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] { copy_out(target(), "pgbench_accounts"); });
    copy_out(source(), "pgbench_accounts");
    other.join();
    return seconds_since(start);
  }
  double verify(const std::string& jobs) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = run("verify", {"--json", "--jobs", jobs, "--include-table", "pgbench_accounts"});
    const double seconds = seconds_since(start);
    EXPECT_EQ(result.code, 0) << result;
    const auto report = nlohmann::json::parse(result.out, nullptr, false);
    std::cerr << "  of it comparing " << report.value("ms", 0) / 1000.0 << " s, " << report.value("rows_compared", 0)
              << " rows\n";
    return seconds;
  }
};

TEST_F(VerifyBenchmark, DISABLED_AgainstACopyOutOfBothSides) {
  const char* given = std::getenv("PGBATON_BENCH_SCALE");
  Pgbench::initialize(source().conninfo(), given ? std::atoi(given) : 50);
  clone_until_caught_up();
  for (auto* side : {&source(), &target()}) side->exec("vacuum analyze pgbench_accounts");
  copy_both();  // into the caches
  for (int round = 0; round < 2; ++round) {
    const double copied = copy_both();
    const double one = verify("1"), four = verify("4");
    std::cerr << "COPY out of both sides " << copied << " s; verify --jobs 1 " << one << " s, ratio " << one / copied
              << "; --jobs 4 " << four << " s, ratio " << four / copied << "\n";
  }
}

}  // namespace
}  // namespace pgbaton::testing
