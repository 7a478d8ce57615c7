#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

#include <algorithm>

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

int report_verified(const Context& context, const verify::Report& report) {
  if (context.options.json)
    print(verify_json(report, context.names.name));
  else if (!context.options.quiet || !report.equal())
    print_text(verify_text(report, context.names.name));
  if (report.equal()) return 0;
  // The worst that happened: what a person must mend, else what a second run may.
  int code = report.not_repaired.empty() ? exit_code(ErrorKind::differences) : 0;
  for (const auto& error : report.not_repaired) {
    print_error(error);
    code = std::max(code, exit_code(error.kind()));
  }
  return code;
}

namespace {

// Who asks for tables of which none can be compared must not read success. A replica without tables has nothing to
// show.
void require_something_compared(const verify::Report& report) {
  if (!report.tables.empty() || report.not_compared.empty()) return;
  const auto& first = report.not_compared.front();
  throw Error(ErrorKind::usage, fmt::format("nothing was compared: {}", first.reason))
      .table(first.name.quoted())
      .hint("Choose other tables with --include-table; `pgbaton status` lists those that are streamed.");
}

}  // namespace

int run_verify(Context& context) {
  context.source();  // a missing or malformed connection string is told before anything is connected
  const auto options = verify_options(context);
  {
    auto target = pg::open_control(context.target(), "verify");
    state::Store store(*target);
    const auto replica = require_replica(context, store);
    require_copied(replica);
    if (!replica.history_break) SourceWatch(context, replica);  // what no row tells, as of now
  }
  EventFile events(context);
  const auto report = verify::run(options, context.stop);
  const int code = report_verified(context, report);
  for (const auto& table : report.not_compared)
    if (table.resync)
      log::warning("not compared, and behind the others until its resync is over: {}", table.name.quoted());
  if (code == 0) require_something_compared(report);
  return code;
}

}  // namespace pgbaton::app
