// Whether the target can be written to.
#pragma once
#include <pgbaton/pg/control.hpp>

namespace pgbaton::state {

// Error(preflight) when the target is a standby.
void require_writable(pg::Control& target);

}  // namespace pgbaton::state
