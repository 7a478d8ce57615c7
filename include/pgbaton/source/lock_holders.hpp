// Who stands in the way of ALTER TABLE.
#pragma once
#include <pgbaton/source/slot.hpp>

#include <cstdint>
#include <vector>

namespace pgbaton::source {

// Whoever has any lock on the table, the oldest transaction first, at most 20; the session that asks is left out.
std::vector<Blocker> load_lock_holders(pg::Control& source, std::uint32_t table);

}  // namespace pgbaton::source
