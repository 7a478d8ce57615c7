// database → handoff → caught up → verified → (once: finished) → the user's SQL → like the live database.
#include "build.hpp"

#include <fmt/format.h>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/snapshot/blockers.hpp>
#include <pgbaton/snapshot/deferred.hpp>
#include <pgbaton/snapshot/recheck.hpp>
#include <pgbaton/source/slot.hpp>

#include "database.hpp"
#include "programs.hpp"

namespace pgbaton::rebuild {

namespace {

class Builder {
 public:
  Builder(Registry& registry, Generation& generation, const std::optional<Generation>& live, const Options& options,
          const std::stop_token& stop)
      : registry_(registry),
        generation_(generation),
        live_(live),
        options_(options),
        stop_(stop),
        names_(generation.names()),
        target_(endpoint_of(registry.place(), generation.database())),
        clone_(options.clone) {
    clone_.names = names_;
    clone_.target = target_;
    if (live) clone_.schema_options.settings = false;  // the live database's count
    clone_.on_failure = snapshot::OnFailure::drop;
  }

  void run(Summary& summary, copy::CopyProgress& progress) {
    begin("create");
    create_database(registry_, generation_, live_);
    options_.course->know("database", generation_.database());
    registry_.store_on_source(generation_, names_.base);
    begin("check");
    check();
    begin("copy");
    copy(summary, progress);
    begin("catch-up");
    catch_up();
    begin("prove");
    prove();
    verify(summary);
    if (options_.mode == Mode::once) finish();
    registry_.keep_locked(generation_.id);  // the copy may have taken hours
    if (!options_.sql_files.empty()) begin("sql");
    run_sql_files(registry_.place(), generation_.database(), options_.sql_files, clone_.schema_options.pg_dump, stop_);
    PGBATON_FAILPOINT("rebuild_sql_done");
    if (options_.mode == Mode::follow) {
      begin("catch-up");
      catch_up();
    }
    registry_.store_position(generation_, generation_.position);
    summary.position = generation_.position;
    begin("settings");
    if (live_) carry_over(registry_, live_->live, generation_.database());
    PGBATON_FAILPOINT("rebuild_carried_over");
    if (!options_.before_swap.empty()) begin("before-swap");
    run_hook("before-swap", options_.before_swap, generation_, generation_.database(), stop_);
    PGBATON_FAILPOINT("rebuild_built");
  }

 private:
  void begin(const std::string& step) { options_.course->begin(step); }
  // Only now the new database can be asked whether everything that the source needs is on this server.
  void check() {
    snapshot::CheckOptions check_options;
    check_options.clone = clone_;
    const auto findings = snapshot::run_check(check_options);
    snapshot::require_no_blocker(findings, kCheckCommand);
    for (const auto& finding : findings)
      if (finding.severity == snapshot::Severity::warning) log::warning("{}: {}", finding.object, finding.message);
  }

  state::Lease lease() {
    {
      auto connection = pg::open_control(target_, "state");
      state::Store(*connection).install();
    }
    return state::Lease::acquire(target_, names_.name, false);
  }

  state::Replica replica() {
    auto connection = pg::open_control(target_, "state");
    return state::Store(*connection).load_replica(names_.name).value();
  }

  void copy(Summary& summary, copy::CopyProgress& progress) {
    auto mine = lease();
    const auto done = snapshot::run_clone(clone_, mine, progress, stop_);
    summary.tables = done.tables;
    summary.rows = done.rows;
    summary.bytes = done.bytes;
    PGBATON_FAILPOINT("rebuild_copied");
  }

  stream::StreamOptions stream_options() const {
    auto stream = options_.stream;
    stream.target = target_;
    return stream;
  }

  // Everything that the source has committed by now, and constraints that nobody has enforced meanwhile.
  void catch_up() {
    auto mine = lease();
    mine.begin_term();
    const auto now = replica();
    const auto barrier = source::emit_barrier(*pg::open_control(registry_.place().source, "barrier"));
    stream::Stream stream(stream_options(), now, mine);
    if (stream.run(stream::UntilApplied{barrier}, stop_) == stream::Ended::stopped)
      throw Error(ErrorKind::failed, "stopped while catching up").hint("The live database is as it was; run it again.");
    auto connection = pg::open_control(target_, "state");
    if (now.replica_role) copy::require_deferrable_constraints(*connection, now.name);
    generation_.position = state::Store(*connection).load_progress(now).applied_lsn;
    PGBATON_FAILPOINT("rebuild_caught_up");
  }

  // DDL that ran while the generation was built may have left a table different, although every change was applied.
  void prove() {
    {
      auto source = pg::open_control(registry_.place().source, "prove");
      auto target = pg::open_control(target_, "prove");
      const auto now = replica();
      auto tables = state::Store(*target).load_tables(now);
      snapshot::ChangeReport().look(
          *source, [&]() -> pg::Control& { return *target; }, now, tables);
    }
    verify::Options options;
    options.stream = stream_options();
    options.names = names_;
    options.jobs = clone_.jobs;
    options.max_rate = clone_.max_rate;
    const auto doubts = verify::prove(options, stop_);
    if (doubts.empty()) return;
    throw Error(ErrorKind::failed, "the new generation is not as the source is: the table " + doubts.front().reason)
        .side(Side::target)
        .table(doubts.front().table.quoted())
        .hint("It was changed by DDL while it was copied. The live database is as it was; run it again.");
  }

  void verify(Summary& summary) {
    if (!options_.verify) return;
    begin("verify");
    auto wanted = *options_.verify;
    wanted.stream = stream_options();
    wanted.names = names_;
    PGBATON_FAILPOINT("rebuild_verifying");
    const auto report = verify::run(wanted, stop_);
    if (report.remaining > 0)
      throw Error(ErrorKind::differences,
                  fmt::format("--verify found {} in the new generation, the first in table {}",
                              counted(report.remaining, "difference"),
                              report.differences.empty() ? "?" : report.differences.front().table.quoted()))
          .hint("The live database is as it was. Run it again; if it stays, report it.");
    summary.verified = true;
    auto connection = pg::open_control(target_, "state");
    generation_.position = state::Store(*connection).load_progress(replica()).applied_lsn;
    PGBATON_FAILPOINT("rebuild_verified");
  }

  // The generation becomes an ordinary database.
  void finish() {
    begin("finish");
    auto mine = lease();
    mine.begin_term();
    snapshot::create_deferred(clone_, replica(), stop_);
    {
      auto source = pg::open_control(registry_.place().source, "sequences");
      auto target = pg::open_control(target_, "sequences");
      copy::copy_sequences(*source, *target, 0);
    }
    const auto report = snapshot::remove_replica(registry_.place().source, target_, names_);
    if (!report.left.empty())
      throw Error(ErrorKind::failed,
                  fmt::format("the new generation could not be finished: {}", fmt::join(report.left, "; ")))
          .hint("The live database is as it was; run the same command again.");
    registry_.store_on_source(generation_, "");
    PGBATON_FAILPOINT("rebuild_finished");
  }

  Registry& registry_;
  Generation& generation_;
  const std::optional<Generation>& live_;
  const Options& options_;
  const std::stop_token& stop_;
  const ReplicaNames names_;
  const pg::Endpoint target_;
  snapshot::CloneOptions clone_;
};

}  // namespace

void build(Registry& registry, Generation& generation, const std::optional<Generation>& live, const Options& options,
           Summary& summary, copy::CopyProgress& progress, const std::stop_token& stop) {
  Builder(registry, generation, live, options, stop).run(summary, progress);
}

}  // namespace pgbaton::rebuild
