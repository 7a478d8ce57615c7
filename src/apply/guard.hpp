// SQL text of the guard, the commit LSN kept with a row. All that differs between guard modes stands here: to add a
// mode, add its value to GuardMode and its case below; the strategies only paste these fragments.
//
// The condition is `<=`: an ordinal inside a transaction is never stored, so equal guards are a replay of one whole
// transaction, whose later changes come again as well. Worked example: a row at guard 0/40 takes a change of 0/40 or
// 0/50, and is left alone by one of 0/20.
//
// A ledger is a table (k1 … kn, commit_lsn, deleted) with an entry for every key written since the table's boundary;
// a key without an entry is guarded by the boundary, below which nothing is delivered. `deleted` makes the entry a
// tombstone, so that tables with a ledger need no other.
#pragma once
#include <pgbaton/apply/table.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::apply::guard {

// Whether rows themselves carry the guard, as a column that every write names.
bool is_stored(GuardMode mode);
// Whether a condition on the guard needs the commit LSN as a parameter.
bool is_compared(GuardMode mode);
// `"_pgbaton_lsn"`; "" unless is_stored.
std::string column(GuardMode mode);
// ` AND t."_pgbaton_lsn" <= $3::pg_lsn`, or ` AND NOT EXISTS (… newer entry of the ledger)`: the stored guard is not
// newer than the change. "" without a guard.
std::string not_newer(const TargetTable& table, std::string_view row, std::string_view commit_lsn);
// `"_pgbaton_lsn" = $3::pg_lsn`, for SET; "" unless is_stored.
std::string assignment(GuardMode mode, std::string_view commit_lsn);

// The ledger's own text. `values` are the key's values, in the order of TargetTable::key.
// `k1, k2`
std::string ledger_keys(const TargetTable& table);
// `l.k1 = $1::int AND l.k2 = …`
std::string ledger_match(const TargetTable& table, const std::vector<std::string>& values);
// `NOT EXISTS (SELECT FROM ledger AS l WHERE l.k1 = … AND l.commit_lsn > $3::pg_lsn)`
std::string no_newer_entry(const TargetTable& table, const std::vector<std::string>& values,
                           std::string_view commit_lsn);
// `INSERT INTO ledger AS l (k1 …, commit_lsn, deleted) SELECT … ON CONFLICT … WHERE l.commit_lsn <= …`: one row touched
// for each key that has no newer entry. `from`: ` FROM …` or "".
std::string enter(const TargetTable& table, const std::vector<std::string>& values, std::string_view commit_lsn,
                  bool deleted, std::string_view from);

}  // namespace pgbaton::apply::guard
