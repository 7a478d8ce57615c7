#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include "command.hpp"
#include "events.hpp"
#include "render.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

stream::Until wanted_end(const Context& context) {
  const Options& options = context.options;
  if (!options.until_lsn.empty()) return stream::UntilEndLsn{require_lsn(options.until_lsn, "--until-lsn")};
  if (options.until == "caught-up") return stream::UntilApplied{current_barrier(context)};
  return stream::OpenEnded{};
}

void require_copied_replica(const Context& context) {
  auto target = pg::open_control(context.target(), "state");
  state::Store store(*target);
  require_copied(require_replica(context, store));
}

RunResult follow(const Context& context, state::Store& store, state::Lease& lease) {
  lease.begin_term();
  state::Replica replica = require_replica(context, store);
  stream::Until until = wanted_end(context);
  bool bounded = !std::holds_alternative<stream::OpenEnded>(until);
  StreamRun run = run_stream(context, lease, replica, until, std::holds_alternative<stream::UntilApplied>(until));
  if (bounded) require_reached(run.ended);
  const bool caught_up = std::holds_alternative<stream::UntilApplied>(until);
  return {"follow",     context.names.name, !bounded ? "stopped" : caught_up ? "caught-up" : "reached",
          std::nullopt, run.status,         run.time};
}

}  // namespace

int run_follow(Context& context) {
  context.source();  // a missing or malformed connection string is told before anything is connected
  require_copied_replica(context);
  EventFile events(context);  // before anything is made: its path may be wrong
  Writer writer = become_writer(context);
  state::Store store(*writer.target);
  events.add("follow_started");
  RunResult result = recording_errors(context, events, [&] { return follow(context, store, writer.lease); });
  events.add("follow_ended");
  if (context.options.json)
    print(run_json(result));
  else if (!context.options.quiet)
    print_text(run_text(result));
  return 0;
}

}  // namespace pgbaton::app
