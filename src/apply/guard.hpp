// SQL text of the guard, the commit LSN kept with a row. All that differs between guard modes stands here: to add a
// mode, add its value to GuardMode and its case below; the strategies only paste these fragments.
//
// The condition is `<=`: an ordinal inside a transaction is never stored, so equal guards are a replay of one whole
// transaction, whose later changes come again as well. Worked example: a row at guard 0/40 takes a change of 0/40 or
// 0/50, and is left alone by one of 0/20.
#pragma once
#include <pgbaton/apply/table.hpp>

#include <string>
#include <string_view>

namespace pgbaton::apply::guard {

// Whether rows carry a guard at all. If not, every function below returns "" and no LSN parameter may be bound for it.
bool is_stored(GuardMode mode);
// `"_pgbaton_lsn"`
std::string column(GuardMode mode);
// ` AND t."_pgbaton_lsn" <= $3::pg_lsn`: the stored guard is not newer than the change.
std::string not_newer(GuardMode mode, std::string_view row, std::string_view commit_lsn);
// `"_pgbaton_lsn" = $3::pg_lsn`, for SET.
std::string assignment(GuardMode mode, std::string_view commit_lsn);

}  // namespace pgbaton::apply::guard
