// The replica in which tables live while they are copied again (pgbaton/resync/resync.hpp), as the commands see it.
#pragma once
#include <pgbaton/snapshot/clone.hpp>

#include "context.hpp"

namespace pgbaton::app {

// Its connections are named after it; tables are still to be named.
snapshot::CloneOptions shadow_clone_options(const Context& context);
// What a resync that did not end has left, when the target can be asked and knows of one. A running one holds its
// lease: Error(held_elsewhere), or with --take-over it is ended.
snapshot::RemovalReport remove_shadow(const Context& context);

}  // namespace pgbaton::app
