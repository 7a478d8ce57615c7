// The swap (see rebuild.hpp): one transaction of three renames and the registry.
#pragma once
#include "registry.hpp"

namespace pgbaton::rebuild {

struct Swapped {
  Milliseconds time{0};  // from the first lock to the end of the commit
  int ended_sessions = 0;
};

// Asks the writer of the live database's replica to end, and waits for it; then notes what the generation has on the
// source. A writer that does not end within `patience` is left to the swap.
void stop_writer(Registry& registry, Generation& live, Milliseconds patience, const std::stop_token& stop);

// `outgoing`: the live database, nullptr when there is none. Tries again until `timeout`, then Error(timed_out) names
// who is in the way; nothing has changed then.
Swapped swap(Registry& registry, const Generation* outgoing, const Generation& incoming, Readers readers,
             Milliseconds timeout, const std::stop_token& stop);

}  // namespace pgbaton::rebuild
