// How far a step of the peeking reader goes. Pure.
//
// Every step decodes from the slot's restart_lsn again, which moves only where the WAL holds a record of running
// transactions (every 15 s, or a checkpoint), and only up to what has been handed out. So a step is at least as long as
// what is read again, within bounds: half of the work is new.
//
//   restart_lsn            position                 upto                       flush
//   |---- read again ------|------- new ------------|------- later steps ------|
//   |------------------- at most `reach` -----------|
//
// A step that hands out nothing (one large transaction that is still open there) doubles the next one.
#pragma once
#include <pgbaton/base/lsn.hpp>

#include <algorithm>
#include <optional>

namespace pgbaton::source {

struct StepLimits {
  std::uint64_t least = 64u << 20, most = 256u << 20;
  std::uint64_t reach = 1u << 30;  // of WAL that one step reads; what it hands out fills a file on the source meanwhile
};

inline std::uint64_t distance(Lsn from_lsn, Lsn to_lsn) {
  return to_lsn > from_lsn ? to_lsn.value - from_lsn.value : 0;
}

// Everything with commit LSN < position_lsn is handed out; flush_lsn > position_lsn. nullopt: out of reach.
inline std::optional<Lsn> step_end(const StepLimits& limits, Lsn restart_lsn, Lsn position_lsn, Lsn flush_lsn,
                                   unsigned empty_steps) {
  const std::uint64_t wanted = std::clamp(distance(restart_lsn, position_lsn), limits.least, limits.most)
                               << std::min(empty_steps, 8u);
  // A rest that is not worth a step of its own goes along.
  const bool to_end = distance(position_lsn, flush_lsn) < wanted + limits.least / 2;
  Lsn upto_lsn = to_end ? flush_lsn : Lsn{position_lsn.value + wanted};
  if (distance(restart_lsn, upto_lsn) <= limits.reach) return upto_lsn;
  upto_lsn = Lsn{restart_lsn.value + limits.reach};
  if (distance(position_lsn, upto_lsn) < limits.least) return std::nullopt;
  return upto_lsn;
}

}  // namespace pgbaton::source
