// rebuild: a new generation (pgbaton/rebuild/rebuild.hpp), or what there is of them; with --mode follow the stream into
// the one that serves.
#include "rebuild_options.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>

#include "command.hpp"
#include "layout.hpp"
#include "monitor.hpp"
#include "progress.hpp"
#include "render.hpp"
#include "verify_options.hpp"
#include "wal_watch.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

std::string summary_text(const rebuild::Summary& summary) {
  auto text = fmt::format("{}: generation {} serves, as of {}; swapped in {}", summary.live, summary.id,
                          summary.position ? to_string(summary.position) : "a position that is not known",
                          format_duration(summary.swap_time));
  if (summary.tables > 0)
    text += fmt::format("; {}, {}, {}{}", counted(summary.tables, "table"), counted(summary.rows, "row"),
                        size_text(summary.bytes), summary.verified ? ", verified" : "");
  if (!summary.database.empty()) text += fmt::format("; the former one is {}", summary.database);
  return text + "\n";
}

std::string summary_json(const rebuild::Summary& summary, std::string_view result) {
  return small_json({{"result", std::string(result)},
                     {"live", summary.live},
                     {"generation", summary.id},
                     {"position_lsn", to_string(summary.position)},
                     {"former", summary.database},
                     {"tables", summary.tables},
                     {"rows", summary.rows},
                     {"bytes", summary.bytes},
                     {"verified", std::int64_t{summary.verified}},
                     {"swap_ms", std::int64_t{summary.swap_time.count()}},
                     {"ended_sessions", std::int64_t{summary.ended_sessions}},
                     {"seconds", std::int64_t{summary.time.count() / 1000}},
                     {"dropped", summary.dropped}});
}

std::string list_text(const std::vector<rebuild::Listed>& generations) {
  if (generations.empty()) return "no generations yet\n";
  std::vector<std::vector<std::string>> rows{{"id", "state", "database", "size", "went live", "age", "position", ""}};
  for (const auto& line : generations)
    rows.push_back({std::to_string(line.id), line.state, line.database, size_text(line.bytes),
                    line.live_at.empty() ? "-" : time_text(line.live_at),
                    line.age_seconds < 0 ? "-" : duration_text(line.age_seconds),
                    line.position ? to_string(line.position) : "-", line.built ? "" : "not built by pgbaton"});
  return in_columns(rows, "rllrlrll");
}

int print_list(const Context& context) {
  const auto generations = rebuild::list(rebuild_place(context));
  if (context.options.json)
    print(generations_json(generations));
  else
    print_text(list_text(generations));
  return 0;
}

int roll_back(const Context& context) {
  const auto options = rebuild_options(context);
  const auto shown = show(context, *options.course);
  const auto summary = rebuild::roll_back(options, context.stop);
  if (context.options.json)
    print(summary_json(summary, "rolled back"));
  else if (!context.options.quiet)
    print_text(summary_text(summary));
  return 0;
}

rebuild::Summary build(const Context& context) {
  copy::CopyProgress progress;
  ProgressDisplay display(context.progress_style(), copy_view(progress));
  const auto options = rebuild_options(context);
  const auto copy_shown = show(context, progress), course_shown = show(context, *options.course);
  const source::OwnSlots own{.base = context.names.base, .slot = context.names.base, .generations = true};
  WalWatch watch(context, &progress, own, WalWatch::Beyond::only_stop);
  return watch.run([&](const std::stop_token& stop) { return rebuild::run(options, progress, stop); });
}

// The generation is the live database now: the same as `follow`.
void stream_on(const Context& context) {
  Writer writer = become_writer(context);
  writer.lease.begin_term();
  state::Store store(*writer.target);
  EventFile events(context);
  recording_errors(context, events, [&] {
    return run_stream(context, writer.lease, require_replica(context, store), stream::OpenEnded{}, false).ended;
  });
}

}  // namespace

rebuild::Place rebuild_place(const Context& context) {
  rebuild::Place place;
  if (context.has_source()) place.source = context.source();
  place.target = context.target();
  place.maintenance_db = context.options.maintenance_db;
  place.names = context.names;
  return place;
}

rebuild::Options rebuild_options(const Context& context) {
  const auto& given = context.options;
  rebuild::Options options;
  options.place = rebuild_place(context);
  options.clone = context.clone_options(true);
  options.stream = context.stream_options(true);
  if (given.verify) options.verify = verify_options(context);
  options.mode = given.mode == "follow" ? rebuild::Mode::follow : rebuild::Mode::once;
  options.readers = given.readers == "wait" ? rebuild::Readers::wait : rebuild::Readers::terminate;
  options.keep = given.keep;
  options.swap_timeout = given.swap_timeout;
  options.max_duration = given.max_duration;
  options.sql_files = given.sql_files;
  options.before_swap = given.before_swap;
  options.after_swap = given.after_swap;
  return options;
}

int run_rebuild(Context& context) {
  if (context.options.list) return print_list(context);
  context.source();  // a missing or malformed connection string is told before anything is connected
  if (context.options.rollback) return roll_back(context);
  const auto summary = build(context);
  if (context.options.json)
    print(summary_json(summary, "swapped"));
  else if (context.options.verbose)
    print_text(summary_text(summary));
  if (context.options.mode == "follow") stream_on(context);
  return 0;
}

}  // namespace pgbaton::app
