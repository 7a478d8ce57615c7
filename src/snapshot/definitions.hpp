// The target's tables as the archive of this round describes them.
#pragma once
#include <map>
#include <vector>

#include "build.hpp"

namespace pgbaton::snapshot {

// Restores section pre-data when that was not done yet. Otherwise compares every pending table with the source's
// (a rewrite may have changed it, and a crash or a --restart may lie between) and makes those that differ anew from the
// archive; they are empty. With --schema none a difference is Error(rejected).
void restore_or_compare(Build& build, std::vector<copy::CopyJob>& pending);
// Fills job.table with what the source's catalog says now.
void describe_again(pg::Control& source, std::vector<copy::CopyJob>& pending);
// Tables of the source that the filter leaves out.
std::vector<QualifiedName> tables_left_out(pg::Control& source, const CloneOptions& options);
// Tables of the source that are not in `jobs`: left out by the filter, or made after the plan. They are in no schema
// archive of this replica, so that a later one does not refer to what an earlier one has not made.
std::vector<QualifiedName> tables_not_recorded(pg::Control& source, const std::vector<copy::CopyJob>& jobs);
// partition → topmost partitioned table, on the target.
std::map<QualifiedName, QualifiedName> load_target_roots(pg::Control& target);

}  // namespace pgbaton::snapshot
