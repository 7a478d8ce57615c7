// The second look, at buckets that differ: their rows are read from both sides in the order of their key's hash, and
// merged. Nothing but the rows of one key is held in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "side_session.hpp"
#include "table_plan.hpp"

namespace pgbaton::verify {

// SQL over kh: rows of these buckets; rows of exactly these key hashes.
std::string in_buckets(const TablePlan& plan, const std::vector<std::int64_t>& buckets);
std::string with_key_hashes(const std::vector<std::int64_t>& key_hashes);

// Calls `found` for each difference among the rows that `which` chooses. False when the table is not what the snapshots
// show any more.
bool find_differences(const TablePlan& plan, SideSession& source, SideSession& target, const std::string& which,
                      const std::function<void(Difference)>& found);

}  // namespace pgbaton::verify
