// What a switchover would take, without a fence: the steps that can be run under load are run and timed, the others are
// estimated from what they will have to touch.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/copy/sequences.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/stream/own_writer.hpp>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kPoll{5};
// Measured on a busy machine with two cores: a fence of 8 tables under 8 writers 8 to 22 ms, 0.3 ms for each table
// more.
constexpr double kFenceFixed = 30, kFencePerTable = 0.5;
// Dropping a guard column is a change of the catalogs, no rewrite.
constexpr double kFlipFixed = 60, kFlipPerTable = 1;

Milliseconds estimate(double fixed, double per_table, std::size_t tables) {
  return Milliseconds(static_cast<std::int64_t>(fixed + per_table * static_cast<double>(tables)));
}

// Until the target has durably applied the position.
void wait_applied(const Options& options, const state::Replica& replica, Lsn barrier_lsn, stream::OwnWriter* writer,
                  const std::stop_token& stop) {
  auto target = pg::open_control(options.stream.target, "dry-run");
  state::Store store(*target);
  const auto deadline = Deadline::after(options.settings.catch_up_timeout);
  while (store.load_progress(replica).applied_lsn < barrier_lsn) {
    if (writer != nullptr) writer->check();
    if (deadline.passed())
      throw Error(ErrorKind::timed_out, fmt::format("the target did not reach {} within {}", to_string(barrier_lsn),
                                                    format_duration(options.settings.catch_up_timeout)))
          .side(Side::target)
          .lsn(barrier_lsn)
          .hint("Let it catch up first (`pgbaton status` shows the lag), or give more time with catch-up-timeout.");
    if (!sleep_for(kPoll, stop)) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
  }
}

class DryRun {
 public:
  DryRun(const Options& options, Report& report, const std::stop_token& stop)
      : options_(options), report_(report), steps_(options, report), stop_(stop) {}

  void run() {
    steps_.run("preflight", false, [&] { return preflight_note(); });
    if (snapshot::has_blocker(report_.findings)) {
      report_.result = "refused";
      return;
    }
    if (has_readers(options_.settings))
      steps_.add({"readers", Milliseconds(0), false, "not sent; nobody waits for it"});
    if (options_.readers_only) {
      report_.result = "possible";
      return;
    }
    auto target = pg::open_control(options_.stream.target, "dry-run");
    auto source = pg::open_control(options_.stream.source, "dry-run");
    state::Store store(*target);
    const auto replica = load_replica(store, options_);
    const auto tables = counted_tables(options_, store, replica, *source);
    auto writer = stream::OwnWriter::start(options_.stream, options_.names.name, options_.verify.on_stream_error);
    steps_.add({"fence", estimate(kFenceFixed, kFencePerTable, tables.size()), true,
                fmt::format("estimated for {}; nobody was fenced", counted(std::ssize(tables), "table"))});
    add_hooks();
    measure(*source, *target, replica, tables, writer.get());
    steps_.add({"flip", estimate(kFlipFixed, kFlipPerTable, tables.size()), true, "estimated"});
    for (const auto& step : report_.steps)
      if (step.in_pause) report_.pause += step.time;
    report_.result = "possible";
  }

 private:
  std::string preflight_note() {
    report_.findings = preflight(options_, stop_);
    return counted(static_cast<std::int64_t>(report_.findings.size()), "finding");
  }

  // Those for which writers would wait.
  void add_hooks() {
    const auto add = [&](const std::string& name) {
      steps_.add({name, Milliseconds(0), true, "not run, and not counted: writers would wait for it, too"});
    };
    if (!options_.settings.hook_fenced.empty()) add("hook-fenced");
    for (const auto* step : {"fence", "barrier", "sequences", "verify", "finish"})
      if (options_.settings.hooks.contains(step)) add(fmt::format("hook at {}", step));
  }

  void measure(pg::Control& source, pg::Control& target, const state::Replica& replica,
               const std::vector<Count>& tables, stream::OwnWriter* writer) {
    steps_.run("catch-up", true, [&] {
      report_.barrier_lsn = source::emit_barrier(source);
      wait_applied(options_, replica, report_.barrier_lsn, writer, stop_);
      return fmt::format("measured under the load as it is, to {}", to_string(report_.barrier_lsn));
    });
    steps_.run("sequences", true, [&] {
      copy::require_sequences(source, target, options_.settings.sequence_gap);
      return std::string("measured; none was set");
    });
    if (options_.settings.verification == "counts") {
      steps_.run("verify", true, [&] { return rest_note(tables); });
    }
    if (options_.settings.verification == "full") {
      steps_.run("verify", true, [&] {
        const auto report = verify::run(without_unsent(options_, state::Store(target).load_tables(replica)), stop_);
        if (!report.equal())
          throw Error(ErrorKind::differences, fmt::format("{} rows differ", report.differences_total))
              .hint("`pgbaton verify` names them; `pgbaton verify --repair` mends them.");
        return fmt::format("{} compared, equal", counted(std::ssize(report.tables), "table"));
      });
    }
  }

  // Both sides move, so the numbers say nothing: only how long it takes does.
  std::string rest_note(const std::vector<Count>& tables) {
    try {
      const auto seen = count_at_rest(options_, tables);
      return fmt::format("measured: {}, {} more do not fit into verify-limit", counted(seen.tables, "table"),
                         seen.left_out);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::differences) throw;
      return "measured; counts of sides that move are not compared";
    }
  }

  const Options& options_;
  Report& report_;
  Steps steps_;
  const std::stop_token& stop_;
};

}  // namespace

Report dry_run(const Options& options, const std::stop_token& stop) {
  Report report;
  report.dry_run = true;
  if (done_before(options)) {
    report.result = "already switched over";
    report.source_open = false;
    return report;
  }
  DryRun(options, report, stop).run();
  return report;
}

}  // namespace pgbaton::switchover
