// DDL on tables that others use.
#pragma once
#include <pgbaton/pg/control.hpp>

#include <string>

namespace pgbaton::copy {

// Runs DDL that needs a short exclusive lock; a lock time-out is tried again.
void alter(pg::Control& target, const std::string& doing, const std::string& sql);

}  // namespace pgbaton::copy
