// The handoff (DESIGN 3): publication → slot → holder → schema → copy → indexes → guard → foreign keys. After it the
// replica is in phase `streaming` and a Stream can be run.
//
// Resume: finished tables keep their boundary, everything else gets a new coordinated boundary from a temporary slot
// with its own settled snapshot; the original slot keeps the stream. Exact, because a change is applied to a table iff
// its commit LSN >= that table's boundary.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/state/lease.hpp>

#include <functional>
#include <stop_token>
#include <string>

namespace pgbaton::snapshot {

enum class SchemaMode { full, none };
enum class Keyless { insert_only, full, exclude };  // what to do with tables that have no usable identity
enum class OnFailure { keep, drop };

struct CloneOptions {
  pg::Endpoint source, target;
  ReplicaNames names{""};
  catalog::TableFilter filter;
  SchemaMode schema = SchemaMode::full;
  copy::SchemaOptions schema_options;
  Keyless keyless = Keyless::insert_only;
  state::GuardKind guard = state::GuardKind::column;
  std::string publication;  // --publication: made by an administrator; "" for our own
  int jobs = 4, index_jobs = 2;
  std::uint64_t split_above = 0, max_rate = 0;
  Milliseconds slot_wait{60'000};
  bool slot_failover = false;  // 17+: the slot is synchronized to standbys that are set up for it
  OnFailure on_failure = OnFailure::keep;
  // For resync, with SchemaMode::none: the tables on the target may have rows, which are replaced in the transaction of
  // the copy, and sequences are left alone. `before_copy` is called in every run when slot and publications are there
  // and before the first table is copied.
  bool replace_rows = false;
  // For resync --add: foreign keys, triggers and rules come later (create_rest()), and sequences are left alone.
  bool joins = false;
  std::function<void()> before_copy{};
};

struct CloneSummary {
  std::int64_t tables = 0, rows = 0, bytes = 0, tables_kept = 0, tables_skipped = 0;
  std::int64_t rows_kept = 0, bytes_kept = 0;  // of tables_kept, which an earlier run has copied
  int boundaries = 0;                          // snapshots taken: 1 when nothing had to be taken again
  Lsn consistent_point;
  Milliseconds slot_time{0}, schema_time{0}, copy_time{0}, finish_time{0};
};

// Builds the replica up to phase streaming, or goes on with an unfinished one. `lease` is held by the caller; its term
// has not begun (a new replica gets its row here, then the term begins). Returns at once when already copied. A failure
// before the first table is committed removes everything that was made; a later one keeps slot and state (or drops them
// by on_failure) and says so.
CloneSummary run_clone(const CloneOptions& options, state::Lease& lease, copy::CopyProgress& progress,
                       const std::stop_token& stop);

// Before anything of a replica is taken away: another cluster, or another database of the same one, may well have a
// slot and publications of these names that are not ours. Error(usage) when `source` is not what the replica was begun
// on. Says nothing where it cannot know: no state, or a side that cannot be reached.
void require_own_source(const pg::Endpoint& source, const pg::Endpoint& target, const std::string& name);

// --restart: empties exactly the tables this replica recorded, drops slot, publications and state.
// Error(usage) as require_own_source.
void reset_replica(const pg::Endpoint& source, const pg::Endpoint& target, const std::string& name);

// What finish and drop share: slot, publications, guards and state, on the side(s) that can be reached. Lines that say
// what was removed or could not be, for people.
struct RemovalReport {
  std::vector<std::string> removed, left;
};
RemovalReport remove_replica(const pg::Endpoint& source, const pg::Endpoint& target, const ReplicaNames& names);
// For a source that is lost for good: guards and state alone. A warning says what would be left on the source.
RemovalReport remove_from_target(const pg::Endpoint& target, const ReplicaNames& names);
// Error(usage) when the source of the replica answers all the same: its slot would pin WAL for ever.
void require_source_gone(const pg::Endpoint& source, const pg::Endpoint& target, const std::string& name);

}  // namespace pgbaton::snapshot
