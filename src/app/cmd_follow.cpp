// follow: the stream of a replica that was copied (rounds.hpp).
#include "command.hpp"
#include "events.hpp"
#include "render.hpp"
#include "rounds.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

void require_copied_replica(const Context& context) {
  auto target = pg::open_control(context.target(), "state");
  state::Store store(*target);
  require_copied(require_replica(context, store));
}

}  // namespace

int run_follow(Context& context) {
  context.source();  // a missing or malformed connection string is told before anything is connected
  require_copied_replica(context);
  EventFile events(context);  // before anything is made: its path may be wrong
  events.add("follow_started");
  const auto work = [&](state::Store& store, state::Lease& lease) { return follow_stream(context, store, lease); };
  const auto result = run_rounds(context, events, {[&] { return become_writer(context); }, work});
  events.add("follow_ended");
  if (context.options.json)
    print(run_json(result));
  else if (!context.options.quiet)
    print_text(run_text(result));
  return 0;
}

}  // namespace pgbaton::app
