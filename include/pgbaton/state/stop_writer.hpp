// Asking the writer of a replica to stop.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/state/store.hpp>

#include <stop_token>
#include <string>
#include <string_view>

namespace pgbaton::state {

// Waits until nobody holds the lease; true then, false at the deadline, or when `stop` came. `payload`: JSON of the
// request "stop", or "". Leaves no request behind.
bool stop_writer(Store& store, const std::string& replica, std::string_view payload, Deadline deadline,
                 const std::stop_token& stop);

}  // namespace pgbaton::state
