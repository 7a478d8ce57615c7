// Settling: what must happen on a snapshot that came from a slot before anything is read through it (DESIGN 3.4).
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/connection.hpp>

#include <stop_token>

namespace pgbaton::source {

// Waits until the server's commit status agrees with the snapshot that the transaction of `holder` has imported and not
// used yet. False when that did not happen by the deadline: the snapshot must not be read, ever.
bool settle(pg::Connection& holder, Deadline deadline, const std::stop_token& stop);

}  // namespace pgbaton::source
