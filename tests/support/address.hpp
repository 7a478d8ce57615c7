#pragma once
#include <string>

namespace pgbaton::testing {

// The first IPv4 address of this machine that is not the loopback's; "" without a network.
std::string own_address();

}  // namespace pgbaton::testing
