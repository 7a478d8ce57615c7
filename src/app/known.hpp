// What to say when the target does not know the replica that a command was meant for: a name that was forgotten looks
// like a replica that does not exist.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/store.hpp>

#include <string>

#include "context.hpp"

namespace pgbaton::app {

// "it knows: one, two (use --name one)"; "" when it knows none.
std::string known_replicas(state::Store& store);
// Error(usage) "no replica … on this target", with what it knows.
Error no_such_replica(const Context& context, state::Store& store);

}  // namespace pgbaton::app
