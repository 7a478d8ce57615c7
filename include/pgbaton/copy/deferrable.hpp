// Deferrable unique, primary key and exclusion constraints are checked by a trigger of the server's own, which does not
// fire under session_replication_role = replica: duplicates are stored without a word. What the source enforces itself
// cannot be violated by its states; what only the target has can.
#pragma once
#include <pgbaton/pg/control.hpp>

#include <string>

namespace pgbaton::copy {

// Looks through the tables of this replica, one scan for each such constraint of the target; no constraint, no cost.
// Error(rejected) names constraint, table and the values of one violation. Sees one snapshot per constraint.
void require_deferrable_constraints(pg::Control& target, const std::string& replica);

}  // namespace pgbaton::copy
