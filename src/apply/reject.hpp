// How apply says what went wrong: with table, key and commit LSN, and with exit code 8 when only a person can mend it.
#pragma once
#include <pgbaton/apply/change.hpp>
#include <pgbaton/base/error.hpp>

#include <string>
#include <string_view>

namespace pgbaton::apply {

// `(id)=(7)`; a table without a key shows its whole row, shortened.
std::string key_text(const TargetTable& table, wire::Tuple row);

// The target refuses this row or this statement: constraint, bad value, schema drift, an exception in a trigger. A
// batch that meets one is replayed change by change. Not among them: lock waits, deadlocks, lost connections (retry).
bool is_rejection(std::string_view sqlstate);

Error rejected(const Change& change, std::string_view message, std::string_view hint);
// `error` came from the server while it worked on `change`: the same with table, key and LSN, and as rejected if it is
// a rejection.
Error located(const Error& error, const Change& change);

}  // namespace pgbaton::apply
