// Tables copied again at their own new boundary, while everything else streams without a pause.
//
// The tables leave the replica for a while and become a replica of their own, the shadow (slot, publications, copy and
// stream of its own: all of clone's machinery, and its resume after a crash). Then they come back at one exact LSN:
//
//   (caller)   snapshot::run_clone of the shadow: publications, slot with boundary X, and then …
//   detach     … the tables are marked, and are skipped by the replica's stream from its next commit on;
//   (caller)   run_clone goes on: each table is emptied and copied in one transaction, its indexes stay
//   hand_over  the shadow streams until it has caught up and rests; held cut of the replica at Z, tens of milliseconds;
//              the shadow goes on to Z exactly; one transaction makes Z the tables' boundary
//   (caller)   the shadow's slot, publications and state are removed
//
// What readers of the target see: the rows as they were when the table was detached, until its copy is committed; then
// the rows of X, and soon what the shadow streams on top of them. Until the hand-over these tables are older than all
// others. The old rows are removed by DELETE, so that nobody waits; vacuum gets their space back.
//
// Why not a copy beside the old rows with the changes spooled: the shadow needs no spool in the target, is bounded by
// its slot on the source as any stream is, and every step is one that clone and follow are tested for. Its price: the
// source decodes its WAL twice for the time, and the replica's stream connects anew when the tables leave and return.
//
// Worked example. The shadow's slot has X = 0/700. The stream stands at 0/900 when t is detached; what it applies from
// there leaves t out, also the rest of its present batch, which is rolled back and applied again. The copy replaces the
// rows of t by those of 0/700, and the shadow streams t alone from there on. It rests at 0/C00; the cut is Z = 0/C40:
// both apply what commits below 0/C40, the one without t, the other t alone. From 0/C40 on t is applied by the
// replica's stream again. No change of t is missing, and none is applied twice.
//
// What makes it exact is progress.tables_version: whatever changes the marks or boundaries raises it under the lock of
// the progress row, and a writer that read the tables before can commit nothing more; it reads them anew and goes on.
//
// A process killed anywhere leaves the mark in table_state (and in part the shadow); the next resync goes on from it.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/stream/stream.hpp>

#include <functional>
#include <stop_token>
#include <vector>

namespace pgbaton::resync {

// <name>__resync and <base>__resync: no replica of a user can be called so.
ReplicaNames shadow_names(const ReplicaNames& names);

// The copied tables of the replica that the arguments mean, in the order of their names: names by SQL identifier rules,
// with patterns as in --include-table; a partitioned table stands for its partitions. Error(usage) for a name that
// matches nothing or a table that the replica has not copied; Error(preflight) for one that was made anew on the source
// (the replica's publication does not have it) or that cannot be emptied on the target without side effects.
std::vector<QualifiedName> find_tables(pg::Control& source, state::Store& target, const state::Replica& replica,
                                       const std::vector<std::string>& arguments);
// A shadow plans its tables by name, and later than they were found, or recorded by a run that was killed. Before it
// copies them: Error(preflight) when a name is that of another table by now.
void require_same_tables(state::Store& store, const state::Replica& replica, const std::string& shadow);
// Columns and rows of these tables that the replica carries, table by table.
std::vector<catalog::TableChoice> choices_of(pg::Control& source, const state::Replica& replica,
                                             const std::vector<QualifiedName>& tables);

// Returns when no transaction of the replica's writer can write the tables any more: nobody but the shadow does from
// then on. Idempotent. `while_waiting` is called often. Error(timed_out) when the writer does not follow, because it
// has no connection; the tables are detached then all the same.
void detach(state::Store& store, const state::Replica& replica, const std::vector<QualifiedName>& tables,
            const std::function<void()>& while_waiting, const std::stop_token& stop);

// --add: the same way in. The shadow makes the tables on the target (pg_dump of these alone) and copies them;
// announce() records them with the replica, out of its stream and pending, and then puts them into its publications.
// The cut of the hand-over waits for every transaction that was open before, so all that commits at or above Z was
// published; foreign keys, triggers and rules come last (snapshot::create_rest). Tables of the source, with the roots
// of partitioned ones, that the replica does not have or has announced. Error(usage, preflight) for one that cannot be
// taken in.
std::vector<QualifiedName> find_new_tables(pg::Control& source, state::Store& target, const state::Replica& replica,
                                           const std::vector<std::string>& arguments);
state::GuardKind recorded_guard(const state::Replica& replica);
// Whether the replica is a shadow of --add, and the tables that it was begun with.
bool adds_tables(const state::Replica& shadow);
std::vector<QualifiedName> recorded_tables(const state::Replica& shadow);
// As detach(); the shadow replica is recorded, with its publications. Idempotent.
void announce(pg::Control& source, state::Store& store, const state::Replica& replica, const std::string& shadow,
              const std::function<void()>& while_waiting, const std::stop_token& stop);

struct HandOver {
  stream::StreamOptions stream;         // of the replica; somebody must be its writer
  stream::StreamOptions shadow_stream;  // with endpoints named after the shadow
  std::string replica, shadow;          // names
  std::function<void()> while_waiting;  // called often; what it throws ends the wait
};
struct HandedOver {
  Lsn boundary_lsn;
  std::int64_t tables = 0, rows = 0;
  Milliseconds pause{0};  // of the replica's stream
};
// The shadow is copied; `lease` is its lease, in whose term run_clone() has run. After it the tables are the
// replica's. Tries for as long as stream.give_up_after says, then Error(timed_out) with what stands in the way.
HandedOver hand_over(const HandOver& options, state::Lease& lease, const std::stop_token& stop);

}  // namespace pgbaton::resync
