// What `status` and `wait` know about a replica: the state on the target, what its writer reports there about once a
// second, and the source if it answers.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/source/wal_hold.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/switchover/standing.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "wal_budget.hpp"

namespace pgbaton::app {

struct StatusReport {
  std::string name;
  std::optional<state::Replica> replica;  // none: phase `none`
  bool writer_holds = false;              // somebody holds the lease now
  std::vector<state::TableState> tables;  // rows and bytes of one that is copied in parts: of those committed
  std::map<QualifiedName, state::CopiedParts> parts;
  state::Progress progress;
  state::Report writer;  // rates and the like, as the writer last reported them
  state::GuardSizes guards;
  std::vector<state::Doubt> doubts;
  std::vector<state::Hold> holds;
  std::vector<state::Event> troubles;  // the last failures, reconnects, missing rows and drifts, newest first
  std::optional<source::SlotInfo> slot;
  Lsn source_flush_lsn;                      // of the source, or as the writer saw it; 0/0 when neither is known
  std::string source_problem;                // why the source was not asked or did not answer
  std::string history_problem;               // why a start would refuse to go on; only looked for without a writer
  std::vector<catalog::WriteCounts> missed;  // on tables that are replicated for INSERT and TRUNCATE only
  // Tables that an unfinished resync has, whether it runs, and its slot.
  std::int64_t tables_detached = 0;
  bool resync_runs = false;
  std::optional<source::SlotInfo> resync_slot;
  std::optional<catalog::HeldSnapshot> snapshot;
  std::optional<source::WalHold> wal;  // of all of the replica's slots
  WalLimit wal_limit;
  std::vector<catalog::Waiting> waiting;          // behind our locks on the source
  std::vector<switchover::StandingFence> fences;  // which of the sides that answer take no writes
  bool readers_on_target = false;                 // of the application: sent there before a flip
  std::vector<std::string> warnings;
  // Only as wished: the last moments but for single tables and cuts, and the last comparison.
  std::vector<state::Event> events;
  std::optional<state::Event> last_verify;

  Lsn oldest_deliverable_lsn() const;  // tombstones from here on are needed
  Lsn largest_boundary() const;
  // The stream's lag; -1 unknown.
  // Slot or history are gone: no stream will ever make up what is behind.
  bool stream_is_lost() const;
  std::int64_t lag_bytes() const;
  double lag_seconds() const;
  Held held() const;                   // what all of that says of the budget; only with `wal`
  double seconds_to_catch_up() const;  // at the present rates; -1 when not known or never
  // The copy's: what is not copied yet by size on the source, and the time that it takes. 0 when copied, -1 unknown.
  std::int64_t copy_left_bytes() const;
  double copy_left_seconds() const;
  std::int64_t tables_copied() const, tables_total() const, bytes_done() const, bytes_total() const;
  // A number that a running writer has reported a moment ago; -1 otherwise.
  double reported(std::string_view what) const;
};

struct StatusWish {
  bool only_this_name = false;  // else the only replica of the target is shown when there is none of this name
  int events = 0;               // at most so many, newest first
};
StatusReport load_status(const Context& context, const StatusWish& wish = {});

// "resync" while a table is being copied again; else its phase.
std::string missed_writes_text(const catalog::WriteCounts& counts);  // not_streamed.cpp
std::string_view phase_word(const state::TableState& table);
// Its rows are committed. A skipped table is neither copied nor waited for.
bool is_copied(const state::TableState& table);

// The step of readiness that is reached: none, copied, indexed, ready.
std::string_view readiness_name(state::Phase phase);
// What a replica whose copy is complete is not ready for yet, for people; "" when it is ready or its copy is not
// complete.
std::string missing_for_ready(const state::Replica& replica, Lsn applied_lsn, const state::Report& writer,
                              const std::vector<state::Doubt>& doubts);

}  // namespace pgbaton::app
