// Attempts to switch over. One is a row of pgbaton.request that the conductor writes as its own writer, and the arbiter
// between a conductor that flips and a watchdog that gives the attempt up: both change it while its state is `taken`,
// so one of them wins. A writer that begins a term closes what was taken before: such an attempt cannot flip any more.
//
//   taken ──► done, outcome flipped (in the transaction that opens the target)
//     └─────► done, outcome undone, or none (before the source is opened again)
#pragma once
#include <pgbaton/state/store.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace pgbaton::state {

struct SwitchoverAttempt {
  std::int64_t id = 0;
  bool running = false, flipped = false;
  Lsn barrier_lsn;
};

// By the holder of the lease, when its term has begun.
std::int64_t begin_switchover(pg::Control& target, const Replica& replica, const std::string& host, int pid);
// False when it has flipped, or nothing is known of it any more: then the source is not to be opened.
bool undo_switchover(pg::Control& target, std::int64_t id, const std::string& reason);
// For the transaction that flips, which the caller has open. Error(failed) when the watchdog came first, and
// Error(held_elsewhere) when the term is over. Raises the epoch: no writer of before commits anything any more.
void flip_switchover(pqxx::transaction_base& tx, std::int64_t id, const Replica& replica, Lsn barrier_lsn);
// The newest of the replica; nullopt also without a schema.
std::optional<SwitchoverAttempt> load_switchover(pg::Control& target, const std::string& replica);

// replica.direction of one whose application works on the target: nothing may stream into it any more.
inline constexpr std::string_view kSwitched = "switched";
// `reason` of a request "stop": the stream is wanted by a switchover, and may come back.
inline constexpr std::string_view kStopForSwitchover = "switchover";
// Whether such a one, or an attempt that runs, is there.
bool wanted_by_switchover(pg::Control& target, const std::string& replica);

}  // namespace pgbaton::state
