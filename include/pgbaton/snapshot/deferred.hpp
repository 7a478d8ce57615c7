// What could not be made before: foreign keys, triggers and rules of a target where session_replication_role may not be
// set, because they would have fired for every applied change.
#pragma once
#include <pgbaton/snapshot/clone.hpp>

#include <stop_token>

namespace pgbaton::snapshot {

// Nothing happens for a replica that leaves nothing for the end. Tables are chosen as the replica was begun, whatever
// filter `options` has. Repeatable: what exists on the target is skipped.
void create_deferred(const CloneOptions& options, const state::Replica& replica, const std::stop_token& stop);

// The same for the tables in options.schema_options.only_tables, which have joined a replica (CloneOptions::joins) that
// is being streamed meanwhile.
void create_rest(const CloneOptions& options, const std::stop_token& stop);

}  // namespace pgbaton::snapshot
