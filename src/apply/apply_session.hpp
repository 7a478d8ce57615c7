// How an apply connection is set up, beyond the settings that every connection pins.
#pragma once
#include <pgbaton/apply/applier.hpp>
#include <pgbaton/pg/connection.hpp>

namespace pgbaton::apply {

// Throws Error(preflight) when the role may not set session_replication_role although the options ask for it.
void set_up_session(pg::Connection& connection, const ApplierOptions& options);

}  // namespace pgbaton::apply
