#include <pgbaton/base/log.hpp>
#include <pgbaton/snapshot/dry_run.hpp>

#include <algorithm>

#include "check_parts.hpp"
#include "estimate.hpp"
#include "plan.hpp"

namespace pgbaton::snapshot {

namespace {

PlannedTable planned(const copy::CopyJob& job, const source::PublicationPlan& publications) {
  PlannedTable table;
  table.name = job.table.name;
  table.bytes = job.table.bytes;
  table.estimated_rows = job.table.estimated_rows;
  table.copied = job.state.phase != state::TablePhase::skipped;
  table.parts = table.copied ? 1 : 0;
  table.guard = job.state.guard;
  table.note = job.state.note;
  auto listed = [&](const std::vector<QualifiedName>& names) {
    return std::ranges::find(names, table.name) != names.end();
  };
  if (listed(publications.tables)) table.publication = publications.publication;
  if (listed(publications.tables_inserts_only)) table.publication = publications.publication_inserts;
  return table;
}

// Beside the workers: control, walsender and holder on the source; on the target control, state, lease, events and the
// watch over refused COPYs. An index worker has a second connection for the statements of pg_restore.
constexpr int kSourceOthers = 3, kTargetOthers = 5, kPerIndexJob = 2;

}  // namespace

DryRun plan_clone(const CloneOptions& given, const std::set<QualifiedName>& kept) {
  CloneOptions options = given;
  // The planner would set REPLICA IDENTITY FULL; a dry run shows the tables as they are now.
  if (options.keyless == Keyless::full) {
    options.keyless = Keyless::insert_only;
    log::info("keyless: full would set REPLICA IDENTITY FULL on the tables shown as insert-only");
  }
  auto source = open_read_only(options.source);
  TablePlan plan = plan_tables(*source, options);
  for (auto& job : plan.jobs) {
    if (!kept.contains(job.table.name)) continue;
    job.state.phase = state::TablePhase::skipped;
    job.state.note = "copied already, stays";
  }
  DryRun result;
  result.name = options.names.name;
  result.slot = options.names.base;
  result.own_publication = options.publication.empty();
  result.publication = plan.publications.publication;
  result.publication_inserts = plan.publications.publication_inserts;
  result.schema = options.schema;
  result.left_out = plan.left_out;
  for (const auto& job : plan.jobs) result.tables.push_back(planned(job, plan.publications));
  std::ranges::stable_sort(result.tables, [](const PlannedTable& a, const PlannedTable& b) {
    return std::pair(a.copied, a.bytes) > std::pair(b.copied, b.bytes);
  });
  int copied = 0;
  for (const auto& table : result.tables) {
    if (!table.copied) continue;
    ++copied;
    result.bytes_total += table.bytes;
  }
  int jobs = std::min(options.jobs, std::max(copied, 1));
  result.source_connections = jobs + kSourceOthers;
  result.target_connections = jobs + kPerIndexJob * options.index_jobs + kTargetOthers;
  result.estimate = estimate_copy(*source, plan, options);
  estimate_slot(*source, result.estimate);
  return result;
}

}  // namespace pgbaton::snapshot
