// The story of a clone. What is recorded, and when, decides what a crash leaves behind:
//
//   record names, phase creating     nothing on the source yet, or a remnant whose name we know → taken back, begun
//   anew publications, slot               (still creating) consistent point, phase copying  the slot is the replica's;
//   every further boundary comes from a temporary slot schema, tables …                 each table with its boundary in
//   the transaction of its rows phase indexing                   every table committed; foreign keys and the like,
//   sequences phase streaming                  done
//
// Worked example of a resume. The slot's consistent point is 0/500; tables a and b are copied on it, then the process
// is killed in the middle of c. The next run takes a temporary slot, whose snapshot is 0/900, and copies c on that. The
// stream still begins at 0/500: for a and b everything counts, for c only what commits at or above 0/900. A transaction
// that commits at 0/700 and writes a and c is applied to a and is in c already.
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/database.hpp>
#include <pgbaton/copy/finalize.hpp>

#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include <algorithm>

#include <pgbaton/source/history.hpp>

#include "build.hpp"
#include "failure.hpp"
#include "fingerprint.hpp"
#include "generation.hpp"
#include "plan.hpp"
#include "preflight.hpp"
#include "remnants.hpp"
#include "rounds.hpp"

namespace pgbaton::snapshot {

namespace {

using state::Phase;

Milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
}

// Makes something on the source. When the reply is lost it may be there all the same, and its name was free before:
// then it counts as made, so that taking back looks for it.
template <typename Work>
void make(bool& made, Work work) {
  try {
    work();
    made = true;
  } catch (const Error& error) {
    made = error.action() == Action::retry;
    throw;
  }
}

// Publications first, then the slot: pgoutput looks publications up in the catalog as it was at each change.
void create_source_objects(Build& build, const source::PublicationPlan& publications) {
  if (build.replica.owns_publication)
    make(build.made.publications, [&] { source::create_publications(*build.source, publications); });
  PGBATON_FAILPOINT("publication_created");
  build.replica.publication_state = source::load_publication_state(*build.source, build.replica.publications());
  build.store.store_publication_state(build.replica, build.replica.publication_state);
  auto start = Clock::now();
  build.progress.step = copy::Step::slot;
  make(build.made.slot, [&] {
    build.snapshot = source::SlotSnapshot::create(
        build.options.source,
        {.name = build.replica.slot, .wait = build.options.slot_wait, .failover = build.options.slot_failover},
        build.stop);
  });
  build.summary.slot_time = since(start);
  build.summary.boundaries = 1;
  build.replica.consistent_point = build.snapshot->consistent_point();
  build.store.store_consistent_point(build.replica, build.replica.consistent_point);
  PGBATON_FAILPOINT("consistent_point_stored");
  build.store.store_phase(build.replica, Phase::copying);
  build.replica.phase = Phase::copying;
  build.tell_boundary(build.replica.slot,
                      static_cast<std::size_t>(std::ranges::count_if(
                          build.jobs, [](const auto& job) { return job.state.phase != state::TablePhase::skipped; })));
  PGBATON_FAILPOINT("slot_recorded");
}

// Not those that are made and left empty.
std::int64_t wanted_tables(const Build& build) {
  return std::ranges::count_if(build.jobs,
                               [](const copy::CopyJob& job) { return job.state.phase != state::TablePhase::skipped; });
}

// A new replica, or a new generation of one that has no committed table (`again`).
void begin_generation(Build& build, bool again) {
  bool restored = again && build.replica.schema_restored;
  require_logical_source(build.source_server, build.options.slot_failover);
  auto plan = plan_tables(*build.source, build.target.get(), build.options);
  require_names_free(*build.source, build.options, plan.publications);
  // Definitions restored in part are our own, too.
  bool own_tables = restored || (again && !build.store.load_schema_parts(build.replica.name).empty());
  require_target_tables(*build.target, build.options, plan, own_tables);
  if (!build.options.publication.empty()) adopt_publication(*build.source, build.options, plan);
  const auto former = again ? build.replica.options : std::string();
  build.replica = new_generation(build, plan, restored);
  build.replica.options = with_identities(build.replica.options, plan.identity_full, former);
  if (again) {
    build.store.replace_generation(build.replica, states_of(plan.jobs));
  } else {
    build.store.insert_replica(build.replica, states_of(plan.jobs));
  }
  build.made.record = true;
  PGBATON_FAILPOINT("replica_recorded");
  build.jobs = std::move(plan.jobs);
  if (!again) build.replica.epoch = build.lease.begin_term();
  log::info("replica {}: {} to copy, generation {}", build.replica.name, counted(wanted_tables(build), "table"),
            build.replica.generation);
  set_identity_full(*build.source, plan.identity_full, build.options.slot_wait, build.stop);
  PGBATON_FAILPOINT("identities_set");
  create_source_objects(build, plan.publications);
}

// The last run ended before the slot was recorded; no table can have been committed.
void begin_again(Build& build) {
  build.replica.epoch = build.lease.begin_term();
  require_same_source(build);
  remove_remnants(*build.source, build.replica);
  begin_generation(build, true);
}

void resume(Build& build) {
  build.replica.epoch = build.lease.begin_term();
  require_same_options(build.replica, build.options, build.source_server);
  require_logical_source(build.source_server);
  auto progress = build.store.load_progress(build.replica);
  const auto timeline = source::require_history(
      build.store, *build.source, build.options.source, build.replica,
      source::expected_history(build.replica, progress, build.store.load_tables(build.replica)));
  if (timeline != build.replica.source_timeline) {
    log::warning("the source went on as timeline {}, and has everything that the target has", timeline);
    build.store.store_source_timeline(build.replica, timeline);
    build.replica.source_timeline = timeline;
  }
  load_jobs(build);
  log::info("replica {}: going on, {} of {} copied", build.replica.name, build.summary.tables_kept,
            counted(wanted_tables(build), "table is", "tables are"));
}

void copied_already(Build& build) {
  build.replica.epoch = build.lease.begin_term();
  require_same_options(build.replica, build.options, build.source_server);
}

// Part of a database, chosen by name, leaves the target's own database as it is.
void copy_database(const Build& build) {
  if (!build.restores_schema() || !build.options.filter.empty()) return;
  const auto& wanted = build.options.schema_options;
  copy::copy_database_properties(build.options.source, build.options.target,
                                 {wanted.settings, wanted.comments, wanted.privileges});
}

// Once per generation, when every table stands: foreign keys, triggers, views, sequences.
void complete(Build& build) {
  auto start = Clock::now();
  build.progress.step = copy::Step::rest;
  if (build.archive)
    copy::restore_rest(build.options.target, *build.archive, build.replica.replica_role && !build.options.joins,
                       build.stop);
  copy_database(build);
  PGBATON_FAILPOINT("rest_restored");
  if (!build.options.replace_rows && !build.options.joins) copy::copy_sequences(*build.source, *build.target, 0);
  build.summary.finish_time += since(start);
  PGBATON_FAILPOINT("before_streaming");
  build.store.store_phase(build.replica, Phase::streaming);
  PGBATON_FAILPOINT("streaming_recorded");
}

void summarize(Build& build) {
  auto& summary = build.summary;
  summary.consistent_point = build.replica.consistent_point;
  for (const auto& table : build.store.load_tables(build.replica)) {
    if (table.phase == state::TablePhase::skipped) {
      ++summary.tables_skipped;
      continue;
    }
    ++summary.tables;
    summary.rows += table.rows;
    summary.bytes += table.bytes;
  }
}

}  // namespace

CloneSummary run_clone(const CloneOptions& options, state::Lease& lease, copy::CopyProgress& progress,
                       const std::stop_token& stop) {
  Build build(options, lease, progress, stop);
  try {
    build.inspect();
    switch (build.replica.phase) {
      case Phase::none:
        begin_generation(build, false);
        break;
      case Phase::creating:
        begin_again(build);
        break;
      case Phase::copying:
      case Phase::indexing:
        resume(build);
        break;
      case Phase::streaming:
      case Phase::ready:
        copied_already(build);
        return build.summary;
    }
    copy_everything(build);
    build.persist([&] { complete(build); });
    summarize(build);
    return build.summary;
  } catch (const Error& error) {
    require_own_place(build, error);
    take_back_or_keep(build, error);
    throw;
  }
}

}  // namespace pgbaton::snapshot
