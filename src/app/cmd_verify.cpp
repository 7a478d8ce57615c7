#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/clone.hpp>

#include <algorithm>
#include <optional>

#include "command.hpp"
#include "events.hpp"
#include "render.hpp"
#include "source_watch.hpp"
#include "verify_options.hpp"
#include "writer.hpp"

namespace pgbaton::app {

verify::Options verify_options(const Context& context) {
  const Options& given = context.options;
  verify::Options options;
  options.stream = context.stream_options(true);
  // Whoever repairs does not want to be stopped by what is to be repaired.
  options.stream.repair_missing = options.stream.repair_missing || given.repair;
  options.names = context.names;
  options.filter = given.filter;
  options.filter.exclude_data.clear();  // of clone; those tables are recorded as not copied
  options.filter.choices.clear();       // as recorded
  options.where = given.where;
  options.sample_percent = given.sample;
  options.jobs = given.jobs;
  options.max_rate = given.max_rate;
  options.timeout = given.timeout;
  options.repair = given.repair;
  options.on_stream_error = [&context](const Error& error) { record_error(context, error); };
  return options;
}

namespace {

// Why a comparison that found nothing is no success all the same: it would say of all tables what was seen of some.
std::optional<Error> not_all_compared(const verify::Report& report) {
  std::string pending;
  for (const auto& table : report.not_compared)
    if (table.pending) pending += (pending.empty() ? "" : ", ") + table.name.quoted();
  if (!pending.empty())
    return Error(ErrorKind::failed, "not compared, and behind the others until their resync is over: " + pending)
        .hint(
            "Wait for the resync, or run it again when it was interrupted (`pgbaton status`); then `pgbaton verify`. "
            "--exclude-table leaves a table out of the comparison.");
  // A replica without tables has nothing to show.
  if (!report.tables.empty() || report.not_compared.empty()) return std::nullopt;
  const auto& first = report.not_compared.front();
  return Error(ErrorKind::usage, "nothing was compared: " + first.reason)
      .table(first.name.quoted())
      .hint("Choose other tables with --include-table; `pgbaton status` lists those that are streamed.");
}

}  // namespace

int report_verified(const Context& context, const verify::Report& report) {
  if (context.options.json)
    print(verify_json(report, context.names.name));
  else if (!context.options.quiet || !report.equal())
    print_text(verify_text(report, context.names.name));
  const auto incomplete = not_all_compared(report);
  if (incomplete) print_error(*incomplete);
  if (report.equal()) return incomplete ? exit_code(incomplete->kind()) : 0;
  // The worst that happened: what a person must mend, else what a second run may.
  int code = report.not_repaired.empty() ? exit_code(ErrorKind::differences) : 0;
  for (const auto& error : report.not_repaired) {
    print_error(error);
    code = std::max(code, exit_code(error.kind()));
  }
  return code;
}

int run_verify(Context& context) {
  snapshot::require_own_source(context.source(), context.target(), context.names.name);
  const auto options = verify_options(context);
  {
    auto target = pg::open_control(context.target(), "verify");
    state::Store store(*target);
    const auto replica = require_replica(context, store);
    require_copied(replica);
    if (!replica.history_break) SourceWatch(context, replica);  // what no row tells, as of now
  }
  EventFile events(context);
  return report_verified(context, verify::run(options, context.stop));
}

}  // namespace pgbaton::app
