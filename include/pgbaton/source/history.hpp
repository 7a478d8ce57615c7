// Whether the stream of a slot still follows on what the target has. Looked at before a stream begins, again once the
// slot is held (nobody else can move it from then on), and while it runs; each break is Error(boundary_lost) that says
// what happened and the ways on. A gap that is not noticed here would be a silent loss.
//
// A source that went back in time (its WAL ends before what the target has, its slot restarts where it did long ago, it
// is on an older timeline) looks sound again as soon as it has written enough, or was promoted. So a writer records the
// break, and each later start ends with it until the source is shown to be another server than the one found then:
//
//   its slot is confirmed beyond where that one's slot was: nobody but us moves it, and we applied nothing since
//   or it left that one's timeline before the position where that one stood
//
// An original source that comes back passes the first if its slot had moved after the copy was made, and the move had
// reached its disk. Otherwise it is refused: nothing tells the two apart.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/state/store.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::source {

struct SlotInfo;

// What the replica was built on, and what it has seen of its source since.
struct ExpectedHistory {
  std::string slot, database;
  std::uint64_t system_identifier = 0;  // 0 not known, as with timeline
  std::uint32_t timeline = 0;
  Lsn applied_lsn;                // where the stream goes on
  Lsn seen_lsn;                   // the end of all history that the target holds: applied, or copied at a boundary
  Lsn slot_restart_lsn;           // as far as the slot's restart_lsn was seen on this timeline; 0 not known
  std::string publication_state;  // load_publication_state() when the slot was made; "" not known
  std::optional<state::HistoryBreak> history_break;
};
ExpectedHistory expected_history(const state::Replica& replica, const state::Progress& progress,
                                 std::span<const state::TableState> tables);

// System identifier, database, timeline, WAL position, slot, publications. Returns the timeline that the source is on
// now: another one than expected when a standby was promoted that had everything the target has; store it before
// anything is applied. Error(boundary_lost); Error(failed), action retry, while the source is a standby.
std::uint32_t require_history(pg::Control& source, const pg::Endpoint& endpoint, const ExpectedHistory& expected);
// The same for a writer: records a break that could be written over, and forgets one that is disproved.
std::uint32_t require_history(state::Store& store, pg::Control& source, const pg::Endpoint& endpoint,
                              const state::Replica& replica, const ExpectedHistory& expected);
// The part about the slot alone.
void require_slot(pg::Control& source, const ExpectedHistory& expected);

// "WAL that it needs was removed (max_slot_wal_keep_size)" and the like; "" while the slot is good.
std::string loss_reason(const SlotInfo& slot);

// Where a timeline ended and its child began: everything below switch_lsn belongs to both.
struct TimelineSwitch {
  std::uint32_t timeline = 0;
  Lsn switch_lsn;
};
// The lines of a history file ("1<TAB>0/3000148<TAB>reason"), the ancestors of one timeline, oldest first.
// Error(failed) when it cannot be read.
std::vector<TimelineSwitch> parse_timeline_history(std::string_view text);

// The catalog rows that make these publications, as JSON: whoever alters a publication, or takes a table out and puts
// it back, leaves other rows behind. pgoutput looks publications up as they were at each change, so that is a gap.
std::string load_publication_state(pg::Control& source, const std::vector<std::string>& publications);
// A short text that differs when the state does; for looking often.
std::string publication_digest(pg::Control& source, const std::vector<std::string>& publications);
// One line for each publication or table whose changes may have been left out since `state`; empty: none. Tables that
// were added, or dropped as a whole, cost nothing.
std::vector<std::string> publication_changes(pg::Control& source, const std::string& state);
void require_publications(pg::Control& source, const ExpectedHistory& expected);

}  // namespace pgbaton::source
