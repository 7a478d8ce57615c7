// The condition that every write of state carries: the epoch is still ours.
#pragma once
#include <pgbaton/state/store.hpp>
#include <string>

namespace pgbaton::state {

// A CTE `mine` with one row while the epoch is in force, none otherwise. FOR SHARE makes a new term wait for a write
// that has passed the test, and makes a write that comes too late see the new epoch: without it a statement could read
// the old epoch and commit after the new term began.
std::string mine_cte(const Replica& replica);

// Throws Error(held_elsewhere), or Error(usage) when the replica is gone altogether.
[[noreturn]] void throw_fenced(const Replica& replica, std::string_view doing);
// Reads the affected-row count of a statement that must touch one row.
void require_one(const pqxx::result& result, const Replica& replica, std::string_view doing);

}  // namespace pgbaton::state
