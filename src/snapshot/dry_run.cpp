#include <pgbaton/base/log.hpp>
#include <pgbaton/snapshot/dry_run.hpp>

#include <pgbaton/copy/parts.hpp>

#include <algorithm>

#include "check_parts.hpp"
#include "estimate.hpp"
#include "plan.hpp"

namespace pgbaton::snapshot {

namespace {

PlannedTable planned(const copy::CopyJob& job, const TablePlan& plan, const copy::SplitRule& rule) {
  const auto& publications = plan.publications;
  PlannedTable table;
  table.name = job.table.name;
  table.bytes = job.table.bytes;
  table.estimated_rows = job.table.estimated_rows;
  table.copied = job.state.phase != state::TablePhase::skipped;
  table.parts = table.copied ? static_cast<int>(copy::plan_parts(job.table, rule).size()) : 0;
  table.guard = job.state.guard;
  if (const auto why = plan.guard_reasons.find(job.table.oid); why != plan.guard_reasons.end())
    table.guard_reason = why->second;
  table.note = job.state.note;
  auto listed = [&](const std::vector<QualifiedName>& names) {
    return std::ranges::find(names, table.name) != names.end();
  };
  if (listed(publications.tables)) table.publication = publications.publication;
  if (listed(publications.tables_inserts_only)) table.publication = publications.publication_inserts;
  return table;
}

// Beside the workers: control, walsender, holder and a look at the WAL held on the source; on the target control,
// state, lease, events, report and the watch over refused COPYs. An index worker has a second connection for the
// statements of pg_restore.
constexpr int kSourceOthers = 4, kTargetOthers = 6, kPerIndexJob = 2;

}  // namespace

DryRun plan_clone(const CloneOptions& options, const std::set<QualifiedName>& kept) {
  auto source = open_read_only(options.source);
  auto target = options.target.conninfo.empty() ? nullptr : open_read_only(options.target);
  TablePlan plan = plan_tables(*source, target.get(), options);
  for (const auto& table : plan.identity_full)
    log::info("keyless: full would set REPLICA IDENTITY FULL on {}; when the replica goes it is {} again",
              table.name.quoted(), table.before);
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
  const copy::SplitRule rule{options.split_above, options.jobs, source->server_version()};
  for (const auto& job : plan.jobs) result.tables.push_back(planned(job, plan, rule));
  const auto rank = [](const PlannedTable& table) {
    return std::pair(table.copied, table.bytes / static_cast<std::uint64_t>(std::max(table.parts, 1)));
  };
  std::ranges::stable_sort(result.tables, std::ranges::greater(), rank);
  int copied = 0;
  for (const auto& table : result.tables) {
    if (!table.copied) continue;
    copied += table.parts;
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
