// A row of pgbaton.event, in the caller's transaction.
#pragma once
#include <pgbaton/state/store.hpp>

namespace pgbaton::state {

// Removes those that are too many by now.
void insert_event(pqxx::transaction_base& tx, const std::string& name, std::string_view kind, std::string_view json);

}  // namespace pgbaton::state
