// The rows of pgbaton.table_state that belong to a new generation.
#pragma once
#include <pgbaton/state/store.hpp>
#include <vector>

namespace pgbaton::state {

void insert_table_rows(pqxx::transaction_base& tx, const Replica& replica, const std::vector<TableState>& tables);

}  // namespace pgbaton::state
