// --keyless full: the only change that pgbaton ever makes to a user table on the source, and only when asked for.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>

#include <stop_token>
#include <vector>

namespace pgbaton::snapshot {

// Sets REPLICA IDENTITY FULL on each table that has no usable identity. ALTER TABLE takes a lock that everybody waits
// behind as soon as it waits itself, so it asks for the lock for a tenth of a second and then lets the application go
// first for a while, again and again. Error(timed_out) when one table took longer than `patience`: it names who had the
// lock. Those that were set before stay so.
void set_identity_full(pg::Control& source, const std::vector<catalog::Table>& tables, Milliseconds patience,
                       const std::stop_token& stop);

}  // namespace pgbaton::snapshot
