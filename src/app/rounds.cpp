#include "rounds.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/snapshot/way_back.hpp>
#include <pgbaton/state/switchover.hpp>

#include <algorithm>

#include "direction.hpp"

namespace pgbaton::app {

namespace {

stream::Until wanted_end(const Context& context) {
  const Options& options = context.options;
  if (!options.until_lsn.empty()) return stream::UntilEndLsn{require_lsn(options.until_lsn, "--until-lsn")};
  if (options.until == "caught-up") return stream::UntilApplied{current_barrier(context)};
  return stream::OpenEnded{};
}

// The end must not be behind what the target holds already: then it would not be exactly the transactions up to there.
// Nobody knows whether one has ended between the two positions.
void require_not_passed(state::Store& store, const state::Replica& replica, const stream::Until& until) {
  const auto* end = std::get_if<stream::UntilEndLsn>(&until);
  if (end == nullptr) return;
  Lsn held_lsn = store.load_progress(replica).applied_lsn;
  for (const auto& table : store.load_tables(replica))
    if (!table.detached && table.phase != state::TablePhase::skipped) held_lsn = std::max(held_lsn, table.boundary);
  if (held_lsn <= end->lsn) return;
  throw Error(ErrorKind::usage, fmt::format("--until-lsn {}: this position has passed, replica {} is at {} already",
                                            to_string(end->lsn), replica.name, to_string(held_lsn)))
      .side(Side::target)
      .lsn(end->lsn)
      .hint(
          fmt::format("What is applied stays: give {} or a later position. Nothing was changed.", to_string(held_lsn)));
}

// Whether it was a switchover that ended the stream; then the generation that may come back.
std::string lent_generation(const Context& context, state::Store& store) {
  const auto& options = context.options;
  if (context.stop.stop_requested() || !options.until.empty() || !options.until_lsn.empty()) return {};
  if (options.command == "clone" && !options.follow) return {};
  if (!state::wanted_by_switchover(store.connection(), context.names.name)) return {};
  const auto replica = store.load_replica(context.names.name);
  return replica ? replica->generation : std::string();
}

// It ends with the application on the target, or gives the stream back: true. While it runs it holds its lock, or the
// lease; both free for a while means that it has ended, in whatever way.
bool given_back(const Context& context, const std::string& generation) {
  constexpr Milliseconds kPoll{300};
  constexpr int kFreeLooks = 10;
  auto target = pg::open_control(context.target(), "state");
  state::Store store(*target);
  for (int free = 0; free < kFreeLooks;) {
    const auto replica = store.load_replica(context.names.name);
    if (!replica || replica->generation != generation || replica->direction == state::kSwitched) return false;
    const auto& name = context.names.name;
    free = state::switchover_runs(*target, name) || state::Lease::held(*target, name) ? 0 : free + 1;
    if (!sleep_for(kPoll, context.stop)) return false;
  }
  return true;
}

// True when there is a stream to go on with.
bool goes_on(Context& context, const std::string& generation) {
  log::info("a switchover has taken over the stream: waiting for its end");
  if (given_back(context, generation)) {
    log::info("the switchover was given up: following again");
    return true;
  }
  if (context.stop.stop_requested() || !follow_round(context)) return false;
  log::info("the application has changed sides: streaming from where it works now");
  return true;
}

}  // namespace

RunResult follow_stream(const Context& context, state::Store& store, state::Lease& lease) {
  lease.begin_term();
  state::Replica replica = require_replica(context, store);
  if (replica.direction != state::kSwitched) snapshot::unmake_way_back(store.connection(), replica);
  stream::Until until = wanted_end(context);
  require_not_passed(store, replica, until);
  bool bounded = !std::holds_alternative<stream::OpenEnded>(until);
  StreamRun run = run_stream(context, lease, replica, until, std::holds_alternative<stream::UntilApplied>(until));
  if (bounded) require_reached(run.ended);
  const bool caught_up = std::holds_alternative<stream::UntilApplied>(until);
  return {"follow",     context.names.name, !bounded ? "stopped" : caught_up ? "caught-up" : "reached",
          std::nullopt, run.status,         run.time};
}

RunResult run_rounds(Context& context, EventFile& events, const Round& first) {
  std::optional<RunResult> result;
  for (;;) {
    std::string generation;
    {
      Writer writer = result ? become_writer(context) : first.begin();
      state::Store store(*writer.target);
      auto round = recording_errors(context, events, [&] {
        return result ? follow_stream(context, store, writer.lease) : first.work(store, writer.lease);
      });
      if (result) round.clone = result->clone, round.command = result->command;
      result = std::move(round);
      generation = lent_generation(context, store);
    }
    if (generation.empty() || !goes_on(context, generation)) return *result;
  }
}

}  // namespace pgbaton::app
