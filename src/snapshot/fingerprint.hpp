// The options that must not change between the runs of one generation, as JSON in pgbaton.replica.options.
#pragma once
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/snapshot/clone.hpp>

#include <string>

namespace pgbaton::snapshot {

std::string options_json(const CloneOptions& options, const catalog::Server& source);
// Throws Error(usage) naming each difference between what the replica was begun with and what is asked for now.
void require_same_options(const state::Replica& replica, const CloneOptions& options, const catalog::Server& source);
// Which tables, how they are guarded, and whether the schema is made: as the replica was begun, into `options`.
void apply_recorded_choice(const state::Replica& replica, CloneOptions& options);
// What is recorded as pgbaton.replica.last_error.
std::string error_json(const Error& error);

}  // namespace pgbaton::snapshot
