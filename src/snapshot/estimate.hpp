// How long a clone will take and how much WAL it means: numbers to plan a maintenance window with, not promises.
#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/snapshot/dry_run.hpp>

#include "plan.hpp"

namespace pgbaton::snapshot {

// Reads sizes, and the source's WAL position twice, a second apart.
Estimate estimate_clone(pg::Control& source, const TablePlan& plan, const CloneOptions& options);

}  // namespace pgbaton::snapshot
