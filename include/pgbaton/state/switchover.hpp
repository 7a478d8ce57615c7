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
  std::string conductor;  // "HOST, pid 4711"
  std::string begun_at;   // in UTC
  std::string reason;     // why it was given up; "" not known, or it was not
};

// By the holder of the lease, when its term has begun.
std::int64_t begin_switchover(pg::Control& target, const Replica& replica, const std::string& host, int pid);
// False when it has flipped, or nothing is known of it any more: then the source is not to be opened.
bool undo_switchover(pg::Control& target, std::int64_t id, const std::string& reason);
// What a fence says of the attempt that has put it up; false when this target does not know it as one of the replica.
struct AttemptName {
  std::string generation;
  std::int64_t id = 0;
};
bool knows_attempt(pg::Control& target, const std::string& replica, const AttemptName& attempt);
// For the transaction that flips, which the caller has open. Error(failed) when the watchdog came first, and
// Error(held_elsewhere) when the term is over, Error(preflight) when a resync has taken tables out of the stream.
// Raises the epoch: no writer of before commits anything any more. `from_lsn`: of this server, where a way back begins;
// 0 none.
void flip_switchover(pqxx::transaction_base& tx, std::int64_t id, const Replica& replica, Lsn barrier_lsn,
                     Lsn from_lsn);
// The newest of the replica; nullopt also without a schema.
std::optional<SwitchoverAttempt> load_switchover(pg::Control& target, const std::string& replica);

// Whether readers of the application were sent to the target of this generation before its flip.
void record_readers(pg::Control& target, const Replica& replica, bool on_target);
bool readers_on_target(pg::Control& target, const Replica& replica);

// replica.direction of one whose application works on the target: nothing may stream into it any more.
inline constexpr std::string_view kSwitched = "switched";
// Of a replica that streams from what was its target to what was its source. Its state is there; the row of the same
// name on the other side is `switched` and has the way back.
inline constexpr std::string_view kReverse = "reverse";

// What a switchover makes on the target so that changes can stream back: recorded in the row of the replica there,
// before it is made, as one JSON document (snapshot/way_back.hpp writes it).
struct WayBack {
  std::string generation;  // of the replica that it will be
  std::string slot, publication, publication_inserts;
  Lsn from_lsn;      // exactly where it begins; 0 until the flip
  std::string json;  // all of it
};
// nullopt also without a schema, or with one that does not know it.
std::optional<WayBack> load_way_back(pg::Control& target, const std::string& replica);
// "" forgets it. Conditional on the epoch.
void store_way_back(pg::Control& target, const Replica& replica, const std::string& json);
// On the other side, where an older row of this name is replaced: the replica that streams back, ready, with all of
// its tables at from_lsn. Nothing happens when it is there already.
void establish_way_back(pg::Control& other, const std::string& replica, const WayBack& way_back);
// What is left of a replica that was switched over is the row with its way back; slot "" says so.
void keep_way_back_alone(pg::Control& target, const std::string& replica);
// `reason` of a request "stop": the stream is wanted by a switchover, and may come back.
inline constexpr std::string_view kStopForSwitchover = "switchover";
// Whether a conductor is at work, from its preflight to its clean-up: it holds the advisory lock of this name.
std::string switchover_lock(const std::string& replica);
bool switchover_runs(pg::Control& target, const std::string& replica);
// Whether such a request, or an attempt that runs, is there.
bool wanted_by_switchover(pg::Control& target, const std::string& replica);

}  // namespace pgbaton::state
