#pragma once
#include <pgbaton/catalog/table.hpp>

#include <cstdint>
#include <optional>

namespace pgbaton::copy {

// last_value + gap × increment, in the direction of the increment; a sequence that was never called keeps its first
// value. nullopt when that passes the limits, also for CYCLE: wrapping around would give values out a second time.
std::optional<std::int64_t> advanced_value(const catalog::Sequence& sequence, std::int64_t gap);

}  // namespace pgbaton::copy
