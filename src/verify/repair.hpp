// Writes the right rows at a cut that is held: the appliers rest, so both sides stand still at cut.lsn() and what is
// read there is what is written. verify.hpp says why this needs no tombstones.
#pragma once
#include <pgbaton/stream/shared_cut.hpp>

#include <span>
#include <stop_token>

#include "table_plan.hpp"

namespace pgbaton::verify {

// The differences of one table that one rest is to mend.
struct RepairBatch {
  const TablePlan* plan = nullptr;
  std::vector<Difference> differences;
};

// Rows written or removed; nullopt when the target had left the cut (the rest was given up): nothing is changed then.
// `tables_version` was read before the tables were planned: Error(failed, retry) when a resync has taken tables since.
// Error(rejected) for a row that the target does not accept.
std::optional<std::int64_t> repair_at(const stream::SharedCut& cut, const Options& options,
                                      const state::Replica& replica, std::int64_t tables_version,
                                      std::span<const RepairBatch> batches, const std::stop_token& stop);

}  // namespace pgbaton::verify
