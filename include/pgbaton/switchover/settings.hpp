// What section `switchover:` of the configuration says. Every setting has a default that works.
#pragma once
#include <pgbaton/base/time.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::switchover {

// Steps after which a command of the user may run. None at the flip: `send` is the first thing after it. given-up: the
// application stays where it is (also --undo).
inline constexpr std::array<std::string_view, 13> kHookSteps{"preflight", "prepare",   "way-back", "readers", "fence",
                                                             "barrier",   "sequences", "verify",   "finish",  "send",
                                                             "turn",      "clean-up",  "given-up"};

struct Settings {
  Milliseconds transaction_wait{10'000};        // for write transactions that are open when the fence is to come
  std::string long_transactions = "terminate";  // or "fail": what becomes of those that are open then
  Milliseconds catch_up_timeout{30'000};        // for the target to reach the barrier
  Milliseconds deadline{60'000};                // from the fence to the flip; then the watchdog opens the source again
  std::int64_t sequence_gap = 100'000;          // increments beyond the source's last value
  std::string verification = "counts";          // off, counts, full
  Milliseconds verify_limit{300};               // counts: how long the writers may wait for them
  std::uint64_t max_lag = 16u << 20;            // more WAL behind than this: not now
  std::vector<std::string> allow_left_behind;   // tables (patterns) whose rows the target may lack
  bool analyze = false;                         // ANALYZE on the target before the fence
  std::vector<std::string> prewarm;             // relations of the target, loaded by pg_prewarm before the fence
  std::string way_back = "auto";                // no, auto (where it is possible), yes
  // Commands, run by sh: before the fence, when the writers are fenced, at the flip, after everything.
  std::string hook_before, hook_fenced, hook_flip, hook_after;
  std::map<std::string, std::string> hooks;  // the same by step: run when it has ended
  // Sends readers of the application to where PGBATON_READERS says, before the writers and apart from them.
  std::string hook_readers;
  std::string pgbouncer_readers;                // admin console of a PgBouncer that only readers use; "" none
  std::string pgbouncer_readers_conffile;       // leads to the target
  std::string pgbouncer_readers_conffile_back;  // leads to the source
  std::string pgbouncer;                        // conninfo of its admin console; "" none
  std::string pgbouncer_conffile;               // SET conffile to this at the flip; "" only RELOAD
  std::string pgbouncer_conffile_back;          // the same for --rollback: that leads to the source
  std::string pgbouncer_pause;                  // the database to PAUSE while the writers are fenced; "" none
};

}  // namespace pgbaton::switchover
