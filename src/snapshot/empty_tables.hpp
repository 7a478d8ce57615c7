#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <vector>

namespace pgbaton::snapshot {

// Takes all rows out of the recorded tables of a replica that is to be built anew, and the foreign keys between them.
void empty_tables(pg::Control& target, const state::Replica& replica, const std::vector<state::TableState>& tables);

}  // namespace pgbaton::snapshot
