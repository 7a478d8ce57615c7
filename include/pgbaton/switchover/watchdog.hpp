// The watchdog: a process of its own that undoes the fence when its conductor dies, hangs beyond the deadline, or asks
// for it. It is this program again, with one word on its command line, and lives in a session of its own, so that no
// signal to the conductor's group reaches it. The two talk in lines over pipes; when the pipe ends, the conductor is
// gone.
//
//   conductor                              watchdog
//   hosts of allow_plain_password      →
//   names and connection strings       →   connects to the source
//                                      ←   "ready"
//   "fence PID ABOUT"  (its backend)   →   the deadline runs from here on
//   "alive"                            →   "watching", or what it told when it gave up
//   "flip"                             →   may it? "go" (or "no": given up already)
//   "flipped"                          →   ends, and leaves everything as it is
//   "undo REASON"                      →   gives up: "open" as soon as writers go on, then "clean" or "left"
//
// Before "go" the source is opened without asking anybody: nothing can have flipped. After it the row of
// pgbaton.request decides (pgbaton/state/switchover.hpp): the answer is "open", or "flipped" when the flip came
// first; a target that does not answer is asked until it does.
#pragma once
#include <string_view>

namespace pgbaton::switchover {

inline constexpr std::string_view kWatchdogWord = "__switchover-watchdog";

// The watchdog's main, on stdin and stdout. The exit code is for nobody.
int run_watchdog();

}  // namespace pgbaton::switchover
