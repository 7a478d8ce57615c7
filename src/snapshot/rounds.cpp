#include "rounds.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/pg/connection.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "definitions.hpp"
#include "generation.hpp"
#include "index_pool.hpp"
#include "remnants.hpp"
#include "renamed.hpp"

namespace pgbaton::snapshot {

namespace {

using state::TablePhase;

// A holder that dies again and again has a cause that no further boundary mends.
constexpr int kHolderDeaths = 3;
// Tables that are rewritten every time before their turn comes.
constexpr int kRounds = 12;

Milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
}

bool is_pending(const copy::CopyJob& job) {
  return job.state.phase == TablePhase::pending || job.state.phase == TablePhase::copying;
}

class Rounds {
 public:
  explicit Rounds(Build& build)
      : build_(build),
        link_(build.stop, [this] { stop_.request_stop(); }),
        pool_(build.options, build.replica, build.progress, stop_) {}

  void run() {
    count_totals();
    if (build_.options.split_above > 0 && (build_.source_server.major() < 14 || build_.options.jobs < 2))
      log::warning("--split-above splits nothing: it needs a source from major 14 on, and more than one of --jobs");
    if (build_.options.before_copy) build_.options.before_copy();
    auto pending = pending_jobs();
    if (pending.empty()) prepare_schema(pending);  // resumed after the last table: only the archive is needed
    hand_over_kept();
    for (int round = 1; !pending.empty(); ++round) {
      if (round > kRounds) give_up(pending);
      pending = one_round(std::move(pending));
    }
    build_.snapshot.reset();  // lets vacuum on the source go on
    build_.persist([this] { build_.store.store_phase(build_.replica, state::Phase::indexing); });
    build_.replica.phase = state::Phase::indexing;
    PGBATON_FAILPOINT("indexing_recorded");
    auto start = Clock::now();
    pool_.finish();
    build_.persist([this] { guard_trees(); });
    build_.summary.finish_time = since(start);
  }

 private:
  std::vector<copy::CopyJob> pending_jobs() const {
    std::vector<copy::CopyJob> pending;
    std::copy_if(build_.jobs.begin(), build_.jobs.end(), std::back_inserter(pending), is_pending);
    return pending;
  }

  void count_totals() {
    auto& progress = build_.progress;
    for (const auto& job : build_.jobs) {
      if (job.state.phase == TablePhase::skipped) continue;
      ++progress.tables_total;
      progress.bytes_total += job.state.bytes_total;
      if (is_pending(job)) continue;
      ++progress.tables_done;
      progress.size_done += job.state.bytes_total;
      progress.rows += job.state.rows;
      progress.bytes += job.state.bytes;
      if (job.state.phase != TablePhase::done) continue;
      ++progress.tables_indexed;
      progress.size_indexed += job.state.bytes_total;
    }
  }

  // Tables of earlier runs: what their last run did not get to. Needs the archive, so not before the first round.
  void hand_over_kept() {
    if (kept_handed_over_ || (build_.restores_schema() && !build_.archive)) return;
    kept_handed_over_ = true;
    for (const auto& job : build_.jobs)
      if (job.state.phase == TablePhase::copied || job.state.phase == TablePhase::indexed) to_pool(job);
  }

  void to_pool(const copy::CopyJob& job) {
    bool guard_at_root = job.state.guard == state::GuardKind::column && build_.target_roots.contains(job.table.name);
    pool_.add(job, build_.archive, guard_at_root);
  }

  // A new boundary for what has none yet.
  void take_boundary(std::size_t tables) {
    build_.progress.step = copy::Step::slot;
    auto name = free_temporary_slot(*build_.source, build_.options.names);
    build_.snapshot = source::SlotSnapshot::create(
        build_.options.source, {.name = name, .temporary = true, .wait = build_.options.slot_wait}, build_.stop);
    ++build_.summary.boundaries;
    log::info("new boundary {} from temporary slot {}", to_string(build_.snapshot->consistent_point()), name);
    build_.tell_boundary(name, tables);
  }

  // The archive on this round's snapshot, and the target's tables as it describes them.
  void prepare_schema(std::vector<copy::CopyJob>& pending) {
    auto start = Clock::now();
    build_.progress.step = copy::Step::schema;
    if (build_.restores_schema()) {
      auto schema = build_.options.schema_options;
      if (schema.only_tables.empty()) schema.excluded_tables = tables_not_recorded(*build_.source, build_.jobs);
      for (const auto& pattern : build_.options.filter.exclude_schemas) schema.excluded_schemas.push_back(pattern);
      if (build_.snapshot) {
        build_.archive =
            copy::SchemaArchive::dump(build_.options.source, build_.snapshot->snapshot_id(), schema, build_.stop);
      } else {
        // No rows are read on this one, so it needs no slot and no settling.
        auto holder = pg::Connection::open(build_.options.source, "holder");
        holder.exec("begin isolation level repeatable read read only");
        auto snapshot_id = holder.exec("select pg_export_snapshot()").text(0, 0);
        build_.archive = copy::SchemaArchive::dump(build_.options.source, snapshot_id, schema, build_.stop);
      }
    }
    require_names(*build_.source, build_.jobs);  // after the snapshot, so that the archive has them, too
    restore_or_compare(build_, pending);
    build_.target_roots = load_target_roots(*build_.target);
    build_.progress.step = copy::Step::tables;
    build_.summary.schema_time += since(start);
  }

  // What is left for another round.
  std::vector<copy::CopyJob> one_round(std::vector<copy::CopyJob> pending) {
    if (!build_.snapshot) {
      take_boundary(pending.size());
      describe_again(*build_.source, pending);
    }
    try {
      prepare_schema(pending);
      hand_over_kept();
      pending = copy_on_snapshot(std::move(pending));
    } catch (const Error& error) {
      if (pool_.failed()) pool_.finish();  // throws the cause; this one is its echo
      if (error.action() != Action::retry || stop_.stop_requested() || build_.snapshot->alive()) throw;
      log::warning("the snapshot is gone: {}", error.describe());
      build_.revive();
      count_holder_death();
      pending = still_pending();
    }
    build_.snapshot.reset();
    return pending;
  }

  std::vector<copy::CopyJob> copy_on_snapshot(std::vector<copy::CopyJob> pending) {
    auto start = Clock::now();
    copy::CopyOptions options;
    options.source = build_.options.source;
    options.target = build_.options.target;
    options.jobs = build_.options.jobs;
    options.split_above = build_.options.split_above;
    options.source_version = build_.source_server.version_num;
    options.max_rate = build_.options.max_rate;
    options.replace_rows = build_.options.replace_rows;
    // Sessions that were ended may be the work of a process that has taken the replica over, or dropped it.
    options.before_retry = [this] { build_.lease.require_term(); };
    options.on_part_copied = [this] { build_.any_table_committed = true; };
    options.replica_role = build_.replica.replica_role;
    auto result = copy::copy_tables(
        options, build_.replica, std::move(pending), build_.snapshot->snapshot_id(),
        build_.snapshot->consistent_point(), build_.progress, [this](const copy::CopyJob& job) { on_copied(job); },
        stop_.get_token());
    build_.summary.copy_time += since(start);
    build_.revive();
    skip(result.dropped);
    if (!result.unfinished.empty()) count_holder_death();
    auto left = std::move(result.rewritten);
    std::move(result.unfinished.begin(), result.unfinished.end(), std::back_inserter(left));
    return left;
  }

  // From copy's worker threads, after the commit: what goes wrong here must not make copy take the table again.
  void on_copied(const copy::CopyJob& job) noexcept {
    build_.any_table_committed = true;
    try {
      PGBATON_FAILPOINT("table_copied");
      to_pool(job);
    } catch (...) {
      pool_.fail(std::current_exception());
    }
  }

  void skip(std::vector<copy::CopyJob>& dropped) {
    for (auto& job : dropped) {
      build_.progress.size_done += job.state.bytes_total;
      build_.progress.size_indexed += job.state.bytes_total;
      ++build_.progress.tables_done;
      ++build_.progress.tables_indexed;
      skip_table(build_, job.state, std::string(kDroppedBeforeCopy));
    }
  }

  void count_holder_death() {
    if (++holder_deaths_ < kHolderDeaths) return;
    throw Error(ErrorKind::failed, fmt::format("the session that holds the snapshot died {} times", holder_deaths_))
        .side(Side::source)
        .hint("Look into the source's log for what ends it (a timeout, an administrator, memory), then run again.");
  }

  // The copy itself did not tell what it had finished: the state rows do.
  std::vector<copy::CopyJob> still_pending() {
    std::map<QualifiedName, state::TableState> states;
    for (auto& table : build_.store.load_tables(build_.replica)) states.emplace(table.name, table);
    for (auto& job : build_.jobs) job.state = states.at(job.table.name);
    return pending_jobs();
  }

  [[noreturn]] void give_up(const std::vector<copy::CopyJob>& pending) {
    throw Error(ErrorKind::failed, fmt::format("{} of the tables were rewritten again before each of {} boundaries",
                                               pending.size(), kRounds))
        .side(Side::source)
        .table(pending.front().table.name.quoted())
        .hint("Stop whatever truncates or rewrites it for the time of its copy, then run again.");
  }

  // The guard of a partition tree: one column at the root, stamped with the smallest boundary of its leaves, because a
  // larger one would drop changes of the others.
  void guard_trees() {
    std::map<QualifiedName, std::vector<state::TableState>> trees;
    for (auto& table : build_.store.load_tables(build_.replica)) {
      auto root = build_.target_roots.find(table.name);
      if (root == build_.target_roots.end() || table.guard != state::GuardKind::column) continue;
      trees[root->second].push_back(table);
    }
    for (auto& [root, leaves] : trees)
      if (!std::ranges::all_of(leaves, &state::TableState::guarded)) guard_tree(root, leaves);
  }

  // The smallest boundary of all leaves, also of those that a run which was killed in here has marked already: the
  // column must come out the same.
  void guard_tree(const QualifiedName& root, std::vector<state::TableState>& leaves) {
    copy::add_guard(*build_.target, root, std::ranges::min(leaves, {}, &state::TableState::boundary).boundary);
    for (auto& leaf : leaves) {
      leaf.guarded = true;
      leaf.phase = TablePhase::done;
      build_.store.finish_table(build_.replica, leaf);
      PGBATON_FAILPOINT("leaf_guarded");
    }
  }

  Build& build_;
  std::stop_source stop_;  // the caller's stop, or a worker's failure
  std::stop_callback<std::function<void()>> link_;
  IndexPool pool_;
  int holder_deaths_ = 0;
  bool kept_handed_over_ = false;
};

}  // namespace

void copy_everything(Build& build) {
  Rounds(build).run();
}

}  // namespace pgbaton::snapshot
