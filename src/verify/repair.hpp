// Writes the right rows at a cut that is held: the appliers rest, so both sides stand still at cut.lsn() and what is
// read there is what is written. verify.hpp says why this needs no tombstones.
//
// A row that is on both sides is updated, in the columns that differ; rows go and come again only where an update
// cannot do it: a column GENERATED ALWAYS AS IDENTITY, a key that is spelled otherwise, unique values that change
// places. No row is deleted (or given another value that is referred to) when a foreign key of the target would change
// rows of other tables with it (foreign_actions.hpp).
//
// Each table stands in a savepoint of its own: one that cannot be repaired does not stop the others.
#pragma once
#include <pgbaton/stream/shared_cut.hpp>

#include <span>
#include <stop_token>

#include "table_plan.hpp"

namespace pgbaton::verify {

// The differences of one table that one rest is to mend.
struct RepairBatch {
  const TablePlan* plan = nullptr;  // with find_key_equality()
  std::vector<Difference> differences;
  // All of them go before the first one comes: for unique values that changed places among more than kRepairBatch rows.
  bool at_once = false;
};

struct RepairFailure {
  const TablePlan* plan = nullptr;
  Error error;
  bool at_once_may_help = false;  // a unique or exclusion constraint refused it, and nothing hinders a delete
};

struct Repaired {
  std::int64_t rows = 0;  // written or removed
  std::vector<RepairFailure> failures;
};

// nullopt when the target had left the cut (the rest was given up): nothing is changed then. `tables_version` was read
// before the tables were planned: Error(failed, retry) when a resync has taken tables since. Other errors are those of
// the connections.
std::optional<Repaired> repair_at(const stream::SharedCut& cut, const Options& options, const state::Replica& replica,
                                  std::int64_t tables_version, std::span<const RepairBatch> batches,
                                  const std::stop_token& stop);

}  // namespace pgbaton::verify
