// switchover: the runbook (pgbaton/switchover/switchover.hpp), with each step printed as it ends.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/switchover/switchover.hpp>

#include "cmd_switchover.hpp"
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
  if (options.settings.way_back == "yes")
    throw Error(ErrorKind::usage, "way-back: there is no way back in this version yet")
        .hint("The former source stays as it was, fenced; see README, Upgrade runbook.");
  options.on_step = [](const switchover::Step& step) {
    log::info("{:<10} {:>8}{}{}", step.name, format_duration(step.time), step.in_pause ? "  writers wait" : "",
              step.note.empty() ? "" : "  " + step.note);
  };
  return options;
}

void print_report(const Context& context, const switchover::Report& report) {
  if (context.options.json || !context.options.quiet)
    print(context.options.json ? switchover_json(report) : switchover_text(report));
}

int run_dry(const Context& context, const switchover::Options& options) {
  const auto report = switchover::dry_run(options, context.stop);
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
  print_report(context, report);
  if (!report.failure) return 0;
  auto& error = *report.failure;
  if (!report.failed_step.empty()) error.context("step " + report.failed_step);
  record_error(context, error);
  print_error(error);
  return exit_code(error.kind());
}

}  // namespace

int run_switchover(Context& context) {
  context.source();  // a missing or malformed connection string is told before anything is connected
  const auto options = switchover_options(context);
  if (context.options.mode == "undo") return undo(context, options);
  return context.options.dry_run ? run_dry(context, options) : conduct(context, options);
}

}  // namespace pgbaton::app
