// switchover: the runbook (pgbaton/switchover/switchover.hpp), with each step printed as it ends.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/switchover/switchover.hpp>

#include "cmd_switchover.hpp"
#include "direction.hpp"
#include "monitor.hpp"
#include "render.hpp"
#include "render_switchover.hpp"
#include "verify_options.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

switchover::Options switchover_options(const Context& context) {
  switchover::Options options;
  options.stream = context.stream_options(true);
  options.clone = context.clone_options(true);
  options.verify = verify_options(context);
  options.names = context.names;
  options.settings = load_switchover_section(context.options.config_file);
  options.readers_only = context.options.mode == "read-only";
  if (options.readers_only && !switchover::has_readers(options.settings))
    throw Error(ErrorKind::usage, "--mode read-only: nothing says how readers are sent to the other side")
        .hint("Set hook-readers or pgbouncer-readers in section switchover of the file.");
  options.reversed = context.reversed;
  options.on_step = [](const switchover::Step& step) {
    log::info("{:<10} {:>8}{}{}", step.name, format_duration(step.time), step.in_pause ? "  writers wait" : "",
              step.note.empty() ? "" : "  " + step.note);
  };
  return options;
}

void print_report(const Context& context, const switchover::Report& report) {
  if (context.options.json || !context.options.quiet)
    print(context.options.json ? switchover_json(report) : switchover_text(report, context.reversed));
}

int run_dry(const Context& context, const switchover::Options& options) {
  const auto report = switchover::dry_run(options, context.stop);
  options.course->know("result", report.result);
  print_report(context, report);
  return snapshot::has_blocker(report.findings) ? exit_code(ErrorKind::preflight) : 0;
}

int undo(const Context& context, const switchover::Options& options) {
  const auto done = switchover::undo(options, context.options.force, context.stop);
  print(context.options.json ? small_json({{"name", context.names.name}, {"result", done}}) : done);
  return 0;
}

int conduct(const Context& context, const switchover::Options& options) {
  auto report = switchover::run(options, context.stop);
  if (report.failure && !report.failed_step.empty()) report.failure->context("step " + report.failed_step);
  options.course->know("result", report.result);
  print_report(context, report);
  options.course->know("writers", report.source_open ? "go on as before" : "");
  if (!report.failure) return 0;
  const auto& error = *report.failure;
  record_error(context, error);
  if (context.monitor != nullptr) context.monitor->fail(error);
  print_error(error);
  return exit_code(error.kind());
}

// Of a replica that streams back: whether its readers were sent to the former source.
bool readers_went_back(const Context& context) {
  auto there = pg::open_control(context.given_source(), "switchover");
  const auto replica = state::Store(*there).load_replica(context.names.name);
  return replica && replica->direction != state::kSwitched && state::readers_on_target(*there, *replica);
}

// Which way this run goes; true when there is nothing to be done.
bool choose_direction(Context& context) {
  const auto direction = find_direction(context);
  const bool back = context.options.rollback;
  const bool source_works = direction == Direction::rolling_back || direction == Direction::rolled_back;
  if (context.options.mode == "undo") {
    // One that was lost on its way back has fenced the target, or sent the readers before.
    context.reversed = direction == Direction::rolling_back ||
                       (direction == Direction::reverse &&
                        (switchover::is_fenced(context.given_target()) || readers_went_back(context)));
    return false;
  }
  if (!back && source_works)
    throw Error(ErrorKind::usage, "a rollback has not ended: the application works on the source")
        .hint("pgbaton switchover --rollback");
  if (!back) return direction == Direction::reverse && (context.options.dry_run || context.options.mode == "read-only");
  if (direction == Direction::switching)
    throw Error(ErrorKind::usage, "the switchover has not ended: the application works on the target")
        .hint("pgbaton switchover");
  auto target = pg::open_control(context.given_target(), "switchover");
  state::Store store(*target);
  if (direction == Direction::without_way_back || !store.load_replica(context.names.name))
    throw Error(ErrorKind::usage, "--rollback: there is no way back")
        .hint("It is made by a switchover with way-back: yes (or auto, where it is possible).");
  context.reversed = direction != Direction::forward;
  return !context.reversed;
}

int nothing_to_do(const Context& context) {
  switchover::Report report;
  report.dry_run = context.options.dry_run;
  report.result = context.options.rollback ? "the application works on the source" : "already switched over";
  print_report(context, report);
  return 0;
}

}  // namespace

int run_switchover(Context& context) {
  context.source();  // a missing or malformed connection string is told before anything is connected
  if (choose_direction(context)) return nothing_to_do(context);
  const auto options = switchover_options(context);
  options.course->know("mode", context.options.dry_run ? "dry-run" : context.options.mode);
  const auto shown = show(context, *options.course);
  if (context.options.mode == "undo") return undo(context, options);
  return context.options.dry_run ? run_dry(context, options) : conduct(context, options);
}

}  // namespace pgbaton::app
