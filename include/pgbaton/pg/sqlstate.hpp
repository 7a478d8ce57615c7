// The one place where SQLSTATEs are classified: exact codes before classes. A new rule goes here and nowhere else.
#pragma once
#include <pgbaton/base/error.hpp>

#include <string_view>

namespace pgbaton::pg {

// "" means the connection is gone without an answer.
Action classify(std::string_view sqlstate);
// What a person can do about an error with this code when the server gave no hint of its own; "" for most.
std::string_view advice(std::string_view sqlstate);
// Integrity violation or bad data (classes 22, 23, 44): a batch that meets one is replayed change by change.
bool is_data_error(std::string_view sqlstate);
// Snapshot gone: 22023, 42704, 55000 (meaningful only for SET TRANSACTION SNAPSHOT).
bool is_snapshot_gone(std::string_view sqlstate);

}  // namespace pgbaton::pg
