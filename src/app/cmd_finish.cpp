// finish: what DDL has put in doubt → drain → what was deferred → note that nothing more is to come → slot,
// publications, guards, state.
//
// It can be killed anywhere and run again. The slot goes before the guard columns, so that a second run never streams
// into tables without guards: with the note "drained" and no slot the drain is over, in every other case it is done
// (again). Without the note a missing slot is what it always is: changes are lost, exit 4.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/snapshot/deferred.hpp>
#include <pgbaton/snapshot/recheck.hpp>
#include <pgbaton/snapshot/unlike.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/writable.hpp>

#include <algorithm>
#include <iterator>

#include "command.hpp"
#include "events.hpp"
#include "known.hpp"
#include "render.hpp"
#include "resync_shadow.hpp"
#include "verify_options.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

constexpr std::string_view kDrained = "drained";

bool was_drained(state::Store& store, const Context& context, const state::Replica& replica) {
  if (finish_has_begun(store, replica)) return true;  // what it has made would fire for changes now
  auto events = store.load_events(context.names.name, 0).rows;
  if (std::ranges::find(events, kDrained, &state::Event::kind) == events.end()) return false;
  auto source = pg::open_control(context.source(), "finish");
  return !source::load_slot(*source, replica.slot).has_value();
}

void drain(const Context& context, state::Lease& lease, const state::Replica& replica) {
  if (replica.phase < state::Phase::streaming) return;
  auto run = run_stream(context, lease, replica, stream::UntilApplied{current_barrier(context)}, true);
  require_reached(run.ended);
}

// What was enforced by nobody while changes were applied, for the last time.
void require_constraints(const Context& context, const state::Replica& replica) {
  if (!replica.replica_role || replica.phase < state::Phase::streaming) return;
  copy::require_deferrable_constraints(*pg::open_control(context.target(), "constraints"), replica.name);
}

// Whether an error is one that --force goes over.
bool may_go_on(const Context& context, const Error& error) {
  return context.options.force && error.kind() != ErrorKind::held_elsewhere && !context.stop.stop_requested();
}

// What waits for finish is made also when the drain failed: once the state is gone, nothing of ours can make it any
// more. Says what is left out, empty when nothing is.
std::string make_deferred(const Context& context, const state::Replica& replica) {
  if (replica.phase < state::Phase::streaming) return {};
  try {
    snapshot::create_deferred(context.clone_options(true), replica, context.stop);
    return {};
  } catch (const Error& error) {
    if (!may_go_on(context, error)) throw;
    return fmt::format(
        "foreign keys, triggers and rules that were to be made now ({}); take them from the source with pg_dump "
        "--section=post-data",
        error.describe());
  }
}

struct Completion {
  bool drained = false;
  std::string left;  // what --force left out
};

// All that needs the stream or the source's catalogs.
Completion complete(const Context& context, state::Store& store, state::Lease& lease, const state::Replica& replica) {
  bool drained = false;
  try {
    drained = was_drained(store, context, replica);
    if (drained && !finish_has_begun(store, replica)) return {true, {}};
    if (!drained) {
      drain(context, lease, replica);
      require_constraints(context, replica);
      drained = replica.phase >= state::Phase::streaming;
    }
  } catch (const Error& error) {
    if (!may_go_on(context, error)) throw;
    log::warning("--force: going on although the replica could not be drained: {}", error.describe());
  }
  PGBATON_FAILPOINT("finish_drained");
  if (!replica.replica_role && !finish_has_begun(store, replica))
    store.add_event(replica.name, kFinishBegun, state::to_json({{"message", replica.generation}}));
  auto left = make_deferred(context, replica);
  PGBATON_FAILPOINT("finish_deferred");
  if (drained && left.empty()) store.add_event(replica.name, kDrained, "");
  PGBATON_FAILPOINT("finish_noted");
  return {drained, left};
}

// The tables are behind the others, and the drain would not bring them up: not even with --force.
void require_no_resync(const Context& context, state::Store& store, const state::Replica& replica) {
  const auto tables = store.load_tables(replica);
  const auto found = std::ranges::find_if(tables, &state::TableState::detached);
  const auto shadow = store.load_replica(resync::shadow_names(context.names).name);
  if (found == tables.end() && shadow && resync::adds_tables(*shadow))
    throw Error(ErrorKind::preflight, "new tables still lack their foreign keys and triggers (resync --add)")
        .side(Side::target)
        .hint("Let `pgbaton resync` end, or run it again with the same tables when it was killed.");
  if (found == tables.end()) return;
  throw Error(ErrorKind::preflight, "the table is being copied again (resync)")
      .side(Side::target)
      .table(found->name.quoted())
      .hint("Let `pgbaton resync` end, or run it again with the same tables when it was killed.");
}

// What the catalogs show to differ is drift, as a row that does not fit would be.
[[noreturn]] void refuse(const state::Doubt& doubt) {
  const bool differs = doubt.kind == state::DoubtKind::differs;
  throw Error(differs ? ErrorKind::rejected : ErrorKind::preflight,
              "the replica is not as the source is: the table " + doubt.reason)
      .side(Side::target)
      .table(doubt.table.quoted())
      .hint(doubt.remedy + ". --force ends the replica as it is.");
}

// DDL sends nothing, so a drained stream is no proof for a table that was altered: it is compared. What is found in the
// catalogs needs a person. Before the lease is taken, which the comparison needs for itself.
void require_whole(const Context& context, state::Store& store, const state::Replica& replica) {
  auto& target = store.connection();
  if (replica.phase < state::Phase::ready || state::Lease::held(target, replica.name) ||
      was_drained(store, context, replica))
    return;         // refused later, or proven by an earlier run
  store.install();  // a newer version of the state, if it is due
  auto tables = store.load_tables(replica);
  auto source = pg::open_control(context.source(), "finish");
  source::require_history(*source, context.source(),
                          source::expected_history(replica, store.load_progress(replica), tables));
  snapshot::ChangeReport().look(
      *source, [&]() -> pg::Control& { return target; }, replica, tables);
  if (context.options.force) {
    for (const auto& doubt : state::load_doubts(target, replica.name))
      if (doubt.kind != state::DoubtKind::outside) log::warning("--force: {} {}", doubt.table.quoted(), doubt.reason);
    return;
  }
  const auto doubts = verify::prove(verify_options(context), context.stop);
  if (doubts.empty()) return;
  const auto differs = std::ranges::find(doubts, state::DoubtKind::differs, &state::Doubt::kind);
  refuse(differs == doubts.end() ? doubts.front() : *differs);
}

std::vector<std::string> not_carried(state::Store& store, const std::string& name) {
  std::vector<std::string> tables;
  for (const auto& doubt : state::load_doubts(store.connection(), name))
    if (doubt.kind == state::DoubtKind::outside) tables.push_back(doubt.table.quoted());
  return tables;
}

// Before the term begins: a refusal leaves no trace in the state.
void require_ready(const Context& context, state::Store& store) {
  const auto replica = require_replica(context, store);
  require_no_resync(context, store, replica);
  const auto phase = replica.phase;
  if (phase == state::Phase::ready || context.options.force) return;
  const auto doubts = state::load_doubts(store.connection(), replica.name);
  if (const auto doubt = std::ranges::find(doubts, state::DoubtKind::unproven, &state::Doubt::kind);
      phase == state::Phase::streaming && doubt != doubts.end())
    throw Error(ErrorKind::preflight, fmt::format("replica {} is not ready: the table {}", replica.name, doubt->reason))
        .side(Side::target)
        .table(doubt->table.quoted())
        .hint(
            "Run `pgbaton verify --repair`, then `pgbaton follow --until caught-up`; or end it as it is with "
            "--force.");
  throw Error(ErrorKind::preflight,
              fmt::format("replica {} is not ready (phase {})", context.names.name, to_string(phase)))
      .side(Side::target)
      .hint(phase < state::Phase::streaming
                ? "Let the copy end first: run `pgbaton clone` again with the same options."
                : "Let it catch up first (`pgbaton follow --until caught-up`), or end it as it is with --force.");
}

std::vector<std::string> last_look(const Context& context, state::Store& store, const state::Replica& replica) {
  auto source = pg::open_control(context.source(), "finish");
  const auto tables = store.load_tables(replica);
  auto found = not_streamed(*source, store.connection(), tables);
  for (const auto& one : snapshot::definitions_unlike(*source, store.connection(), replica, tables))
    found.push_back(fmt::format("{}: {}. {}", one.object, one.message, one.remedy));
  return found;
}

// What is complete is said before anything is removed, and again as part of the result.
RemovalResult finish(const Context& context, state::Store& store, state::Lease& lease) {
  lease.begin_term();
  state::Replica replica = require_replica(context, store);
  RemovalResult result;
  result.not_carried = not_carried(store, replica.name);
  const auto done = complete(context, store, lease, replica);
  if (done.drained) {
    result.complete_lsn = store.load_progress(replica).applied_lsn;
    result.not_streamed = last_look(context, store, replica);
    log::info("complete up to {}: removing slot, publications, guard columns and state",
              to_string(result.complete_lsn));
  }
  result.report = remove_shadow(context);  // of a resync that was killed after its tables were given back
  auto rest = snapshot::remove_replica(context.source(), context.target(), context.names);
  std::ranges::move(rest.removed, std::back_inserter(result.report.removed));
  std::ranges::move(rest.left, std::back_inserter(result.report.left));
  if (!done.left.empty()) result.report.left.push_back(done.left);
  return result;
}

// A run that was killed at its very end can be repeated: neither side has anything of the replica then, and the target
// no other replica that may have been meant. Everything else is a wrong name or a wrong target: nothing was finished.
bool nothing_to_do(const Context& context, state::Store& store) {
  if (store.load_replica(context.names.name)) return false;
  if (!known_replicas(store).empty()) throw no_such_replica(context, store);
  auto source = pg::open_control(context.source(), "finish");
  const auto slot = source::load_slot(*source, context.names.base);
  if (slot && slot->database == catalog::load_server(*source, Side::source).database)
    throw Error(
        ErrorKind::usage,
        fmt::format("there is no replica named {} on this target, but slot {} on the source: nothing was finished",
                    context.names.name, slot->name))
        .hint("Look at --target. Of a remnant of another target, `pgbaton drop` says how to remove it.");
  store.drop_schema_if_unused();
  auto text = fmt::format("there is no replica named {}, and no slot of it: nothing to finish", context.names.name);
  print(context.options.json ? small_json({{"name", context.names.name}, {"result", "nothing to finish"}}) : text);
  return true;
}

}  // namespace

int run_finish(Context& context) {
  context.source();
  auto target = pg::open_control(context.target(), "state");
  state::require_writable(*target);
  state::Store before(*target);
  if (nothing_to_do(context, before)) return 0;
  EventFile events(context);  // before anything is made: its path may be wrong
  snapshot::require_own_source(context.source(), context.target(), context.names.name);
  try {
    require_whole(context, before, require_replica(context, before));
  } catch (const Error& error) {
    if (!may_go_on(context, error)) throw;
    log::warning("--force: not compared with the source: {}", error.describe());
  }
  Writer writer = become_writer(context);
  state::Store store(*writer.target);
  require_ready(context, store);
  events.add("finish_started");
  auto result = recording_errors(context, events, [&] { return finish(context, store, writer.lease); });
  events.add("finish_ended");
  print_removal(context, result);
  return result.report.left.empty() ? 0 : exit_code(ErrorKind::failed);
}

}  // namespace pgbaton::app
