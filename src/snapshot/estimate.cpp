#include "estimate.hpp"

#include <pgbaton/catalog/server.hpp>

#include <algorithm>
#include <cmath>
#include <thread>

namespace pgbaton::snapshot {

namespace {

// Measured on two modest cores that held both servers and the tool: 130 MB/s for one COPY stream of narrow rows, less
// with more streams. Half of it is what a network and a busy source leave.
constexpr double kCopyBytesPerSecond = 64e6;
constexpr double kIndexBytesPerSecond = 40e6;
// More streams than this are seldom faster on one pair of servers.
constexpr int kUsefulJobs = 4;
// pg_dump, pg_restore, slot and snapshot of a small schema; and each table's own statements.
constexpr double kFixedSeconds = 2, kSecondsPerTable = 0.02;
constexpr auto kWalSample = std::chrono::seconds(1);

double seconds_of(double total, double largest, double rate, int jobs) {
  return std::max(total / (rate * std::clamp(jobs, 1, kUsefulJobs)), largest / rate);
}

// By relpages: the size functions would wait for locks on user tables.
std::uint64_t index_bytes(pg::Control& source, const TablePlan& plan) {
  std::string oids;
  for (const auto& job : plan.jobs)
    if (job.state.phase != state::TablePhase::skipped)
      oids += (oids.empty() ? "" : ",") + std::to_string(job.table.oid);
  return pg::control(Side::source, "reading the size of indexes", [&] {
    pqxx::nontransaction tx(source);
    return tx
        .exec_params1(
            "select coalesce(sum(greatest(c.relpages, 0)::bigint), 0)::bigint * current_setting('block_size')::bigint "
            "from "
            "pg_catalog.pg_index x join pg_catalog.pg_class c on c.oid = x.indexrelid where x.indrelid = "
            "any($1::oid[])",
            "{" + oids + "}")[0]
        .as<std::uint64_t>();
  });
}

std::uint64_t wal_per_second(pg::Control& source) {
  auto before = catalog::current_flush_lsn(source);
  auto start = Clock::now();
  std::this_thread::sleep_for(kWalSample);
  auto after = catalog::current_flush_lsn(source);
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<std::uint64_t>(static_cast<double>(after.value - before.value) / seconds);
}

Milliseconds milliseconds(double seconds) {
  return Milliseconds(std::llround(seconds * 1000));
}

}  // namespace

Estimate estimate_copy(pg::Control& source, const TablePlan& plan, const CloneOptions& options) {
  Estimate estimate;
  double total = 0, largest = 0;
  for (const auto& job : plan.jobs) {
    if (job.state.phase == state::TablePhase::skipped) continue;
    auto bytes = static_cast<double>(job.table.bytes);
    total += bytes;
    largest = std::max(largest, bytes);
    ++estimate.tables;
  }
  estimate.table_bytes = static_cast<std::uint64_t>(total);
  estimate.index_bytes = index_bytes(source, plan);
  double copy = seconds_of(total, largest, kCopyBytesPerSecond, options.jobs) +
                static_cast<double>(estimate.tables) * kSecondsPerTable;
  if (options.max_rate > 0) copy = std::max(copy, total / static_cast<double>(options.max_rate));
  estimate.copy_time = milliseconds(kFixedSeconds + copy);
  // --schema none: the target's own indexes are filled while the rows come in.
  auto built = options.schema == SchemaMode::full ? static_cast<double>(estimate.index_bytes) : 0;
  estimate.index_time = milliseconds(seconds_of(built, 0, kIndexBytesPerSecond, options.index_jobs));
  // COPY logs the rows once, CREATE INDEX its pages.
  estimate.target_wal_bytes = estimate.table_bytes + estimate.index_bytes;
  return estimate;
}

void estimate_slot(pg::Control& source, Estimate& estimate) {
  estimate.source_wal_per_second = wal_per_second(source);
  auto seconds = std::chrono::duration<double>(estimate.copy_time + estimate.index_time).count();
  estimate.slot_wal_bytes = static_cast<std::uint64_t>(seconds * static_cast<double>(estimate.source_wal_per_second));
}

}  // namespace pgbaton::snapshot
