// How a change of table states reaches the replica's writer, and what both ways into the shadow share.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/state/store.hpp>

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::resync {

// The source's tables that the arguments of the command mean.
std::vector<catalog::Table> matching_tables(pg::Control& source, const std::vector<std::string>& arguments);

// The row that every apply transaction locks last: whoever has it now still obeys the table states of before. A flip of
// `pgbaton switchover` locks it too; Error(held_elsewhere) behind one.
void lock_progress(pqxx::transaction_base& tx, const state::Replica& replica);
// The version in force, a new one when something has changed. Error(failed) when the replica is gone.
std::int64_t raise_version(pqxx::transaction_base& tx, const state::Replica& replica, bool changed);
// Returns when no transaction of the writer can obey older table states any more.
void wait_until_obeyed(state::Store& store, const state::Replica& replica, std::int64_t version,
                       const std::function<void()>& while_waiting, const std::stop_token& stop);

}  // namespace pgbaton::resync
