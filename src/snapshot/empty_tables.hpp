#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <vector>

namespace pgbaton::snapshot {

// Error(preflight) when one of the recorded tables was exchanged for another one that has rows.
void require_own_tables(pg::Control& target, const std::vector<state::TableState>& tables);
// Takes all rows out of the recorded tables of a replica that is to be built anew, and the foreign keys between them:
// all or nothing, and only as above.
void empty_tables(pg::Control& target, const state::Replica& replica, const std::vector<state::TableState>& tables);

}  // namespace pgbaton::snapshot
