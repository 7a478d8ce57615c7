// Objects on the source that carry our names.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <string>
#include <vector>

namespace pgbaton::snapshot {

// Drops slot and publications that `replica` has recorded; lines of what was there.
std::vector<std::string> remove_remnants(pg::Control& source, const state::Replica& replica);
// <base>__tmp_<n> with the smallest free n. A temporary slot of a run that died is ended first: we hold the lease.
std::string free_temporary_slot(pg::Control& source, const ReplicaNames& names);

}  // namespace pgbaton::snapshot
