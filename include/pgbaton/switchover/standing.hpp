// Who keeps writers out of a server, and what to do about it: for `status`.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/switchover.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pgbaton::switchover {

enum class Standing {
  conducted,      // a switchover runs
  abandoned,      // its conductor is gone, and nobody has given it up or ended it yet
  given_up,       // it was; the target stays closed then
  readers_sent,   // no attempt, but readers of the application were sent to the target
  changed_sides,  // what the application has left
  foreign,        // of another replica, or somebody else's
};
std::string_view to_string(
    Standing standing);  // "running", "abandoned", "given up", "readers sent", "changed sides", "foreign"

struct StandingFence {
  Side side{};
  Standing standing{};
  std::int64_t attempt = 0;  // row of pgbaton.request; 0: not known
  std::string message;       // "the target takes no writes but pgbaton's: …"
  std::string remedy;        // "" none is due
};

// What is known on the target of the replica's newest attempt.
struct AttemptNow {
  std::optional<state::SwitchoverAttempt> last;
  bool held = false;               // somebody has the replica's lease
  bool readers_on_target = false;  // they were sent there before a flip
};
// `replica`: its row, if there is one.
AttemptNow load_attempt(pg::Control& target, const std::string& name, const std::optional<state::Replica>& replica);

// nullopt: the server takes writes. Reads only; the sides are those of the stream, and with `reverse`, where they are
// not those of the flags, the message names both.
std::optional<StandingFence> find_fence(pg::Control& server, Side side, const ReplicaNames& names,
                                        const AttemptNow& attempt, bool reverse);

}  // namespace pgbaton::switchover
