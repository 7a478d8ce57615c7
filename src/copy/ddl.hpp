// DDL on tables that others use.
#pragma once
#include <pgbaton/pg/control.hpp>

#include <string>

namespace pgbaton::copy {

// How long one try waits for a lock: short, because whoever wants the table meanwhile waits behind us, and longer than
// deadlock_timeout, because only then does the server end an autovacuum that is in the way.
std::string set_lock_timeout(bool local);

// Runs DDL that needs a short exclusive lock; a lock time-out is tried again.
void alter(pg::Control& target, const std::string& doing, const std::string& sql);

}  // namespace pgbaton::copy
