// How long a clone will take and how much WAL it means: numbers to plan a maintenance window with, not promises.
#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/snapshot/dry_run.hpp>

#include "plan.hpp"

namespace pgbaton::snapshot {

// Reads sizes only: all but what the WAL of the source will be. Shared by `check` and `clone --dry-run`.
Estimate estimate_copy(pg::Control& source, const TablePlan& plan, const CloneOptions& options);
// Adds the slot's part; reads the source's WAL position twice, a second apart.
void estimate_slot(pg::Control& source, Estimate& estimate);

}  // namespace pgbaton::snapshot
