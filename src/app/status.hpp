// What `status` and `wait` know about a replica: the state on the target, and the slot on the source if it answers.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/store.hpp>

#include <optional>
#include <string>
#include <vector>

#include "context.hpp"

namespace pgbaton::app {

struct StatusReport {
  std::string name;
  std::optional<state::Replica> replica;  // none: phase `none`
  bool writer_holds = false;              // somebody holds the lease now
  std::vector<state::TableState> tables;
  state::Progress progress;
  state::GuardSizes guards;
  std::vector<state::Hold> holds;
  std::optional<source::SlotInfo> slot;
  Lsn source_flush_lsn;                      // 0/0 when the source was not asked or did not answer
  std::string source_problem;                // why not
  std::string history_problem;               // why a start would refuse to go on; only looked for without a writer
  std::vector<catalog::WriteCounts> missed;  // on tables that are replicated for INSERT and TRUNCATE only
  // Tables that an unfinished resync has, whether it runs, and its slot.
  std::int64_t tables_detached = 0;
  bool resync_runs = false;
  std::optional<source::SlotInfo> resync_slot;
  std::vector<std::string> warnings;

  Lsn oldest_deliverable_lsn() const;  // tombstones from here on are needed
  std::int64_t lag_bytes() const;      // -1 unknown
  double lag_seconds() const;          // -1 unknown
  std::int64_t tables_copied() const, tables_total() const, bytes_done() const, bytes_total() const;
};

StatusReport load_status(const Context& context);

// "resync" while a table is being copied again; else its phase.
std::string_view phase_word(const state::TableState& table);
// Its rows are committed. A skipped table is neither copied nor waited for.
bool is_copied(const state::TableState& table);

}  // namespace pgbaton::app
