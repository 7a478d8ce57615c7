#include "writer.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/snapshot/take_in.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/open_reader.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/doubt.hpp>

#include <algorithm>
#include <ctime>

#include "known.hpp"
#include "layout.hpp"
#include "monitor.hpp"
#include "progress.hpp"
#include "render.hpp"
#include "source_watch.hpp"
#include "wal_watch.hpp"

namespace pgbaton::app {

namespace {

// The lease only ends the former writer's sessions on the target.
void end_former_reader(const Context& context, state::Store& store) {
  auto replica = store.load_replica(context.names.name);
  if (!replica) return;
  try {
    auto source = pg::open_control(context.source(), "take-over");
    source::release_slot(*source, replica->slot);
    source::end_read_session(*source, replica->slot, replica->name);
  } catch (const Error& error) {
    log::warning("the slot's former reader could not be ended: {}", error.describe());
  }
}

}  // namespace

Writer become_writer(const Context& context) {
  auto lease = state::Lease::acquire(context.target(), context.names.name, context.options.take_over);
  Writer writer{std::move(lease), pg::open_control(context.target(), "state")};
  state::Store store(*writer.target);
  if (store.installed()) store.install();  // a newer version of the state, if it is due
  if (context.options.take_over) end_former_reader(context, store);
  return writer;
}

state::Replica require_replica(const Context& context, state::Store& store) {
  auto replica = store.load_replica(context.names.name);
  if (!replica) throw no_such_replica(context, store);
  return *replica;
}

void require_copied(const state::Replica& replica) {
  if (replica.phase >= state::Phase::streaming) return;
  throw Error(ErrorKind::usage,
              fmt::format("the copy of replica {} is not complete (phase {})", replica.name, to_string(replica.phase)))
      .side(Side::target)
      .hint("Run `pgbaton clone` again with the same options: it goes on where the last run ended.");
}

bool record_error(const Context& context, const Error& error) noexcept {
  if (error.kind() == ErrorKind::held_elsewhere || error.kind() == ErrorKind::usage) return false;
  if (context.stop.stop_requested() && error.kind() == ErrorKind::failed) return false;
  try {
    auto target = pg::open_control(context.target(), "last-error");
    state::Store store(*target);
    if (!store.load_replica(context.names.name)) return false;
    const auto json = last_error_json(error);
    store.store_last_error(context.names.name, json);
    store.add_event(context.names.name, "failed", json);
    return true;
  } catch (const std::exception& other) {
    log::debug("the error could not be recorded on the target: {}", other.what());
    return false;
  }
}

namespace {

// Streams to the end; partitions that the stream meets and does not know are taken in on the way, if that is wanted.
stream::Ended stream_on(const Context& context, stream::Stream& stream, const state::Replica& replica,
                        const stream::Until& until, const std::stop_token& stop) {
  for (;;) {
    try {
      return stream.run(until, stop);
    } catch (const Error& error) {
      if (error.sqlstate() != stream::kUnknownTable || context.options.drift != "add-columns") throw;
      log::info("{}", error.describe());
      if (snapshot::take_in_partitions(context.clone_options(true), replica, stop) == 0) throw;
    }
  }
}

// A run that has caught up leaves the replica ready, unless the source has written much meanwhile.
void say_if_not_ready(const Context& context, const std::string& name) {
  auto target = pg::open_control(context.target(), "state");
  auto now = state::Store(*target).load_replica(name);
  if (!now || now->phase != state::Phase::streaming) return;
  const auto doubts = state::load_doubts(*target, name);
  if (const auto found = std::ranges::find(doubts, state::DoubtKind::unproven, &state::Doubt::kind);
      found != doubts.end())
    log::warning("caught up with the position that was asked for, but not ready: {} {}; {}", found->table.quoted(),
                 found->reason, found->remedy);
  else
    log::warning(
        "caught up with the position that was asked for, but not ready: the lag is {} or more again "
        "(--ready-lag), or a resync is not over; `pgbaton follow` goes on",
        size_text(static_cast<std::int64_t>(context.options.ready_lag)));
}

}  // namespace

void require_unbroken(const Context& context, state::Store& store, const state::Replica& replica) {
  if (!replica.history_break) return;
  auto source = pg::open_control(context.source(), "history");
  const auto server = catalog::load_server(*source, Side::source);
  if (server.system_identifier != 0 && server.system_identifier != replica.source_system_id) return;  // not its source
  source::require_history(*source, context.source(),
                          source::expected_history(replica, store.load_progress(replica), store.load_tables(replica)));
}

bool finish_has_begun(state::Store& store, const state::Replica& replica) {
  if (replica.replica_role) return false;
  const auto events = store.load_events(replica.name, 0).rows;
  return std::ranges::any_of(events, [&](const state::Event& event) {
    return event.kind == kFinishBegun && event.message == replica.generation;
  });
}

namespace {

void require_finish_not_begun(const Context& context, const state::Replica& replica) {
  if (replica.replica_role) return;
  auto target = pg::open_control(context.target(), "state");
  state::Store store(*target);
  if (!finish_has_begun(store, replica)) return;
  throw Error(ErrorKind::preflight, fmt::format("`finish` of replica {} was interrupted: foreign keys and triggers are "
                                                "on, and would fire for changes that are applied",
                                                replica.name))
      .side(Side::target)
      .hint("Run `pgbaton finish` again: the target is complete up to where it stood then.");
}

}  // namespace

StreamRun run_stream(const Context& context, state::Lease& lease, const state::Replica& replica,
                     const stream::Until& until, bool completes) {
  require_finish_not_begun(context, replica);
  bool bounded = !std::holds_alternative<stream::OpenEnded>(until);
  stream::Stream stream(context.stream_options(bounded), replica, lease);
  StreamRun run;
  auto start = Clock::now();
  {
    SourceWatch watch(context, replica);
    if (!bounded) watch.start();
    ProgressDisplay display(context.progress_style(), stream_view([&] { return stream.status(); }));
    const auto shown = show(context, stream);
    WalWatch wal(context, nullptr, {.base = context.names.base, .slot = replica.slot});
    run.ended = wal.run([&](const std::stop_token& stop) { return stream_on(context, stream, replica, until, stop); });
  }
  run.status = stream.status();
  run.time = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
  if (completes && run.ended == stream::Ended::reached) say_if_not_ready(context, replica.name);
  return run;
}

void require_reached(stream::Ended ended) {
  switch (ended) {
    case stream::Ended::reached:
      return;
    case stream::Ended::stopped:
      throw Error(ErrorKind::failed, "stopped before the end was reached; what was applied is committed and confirmed")
          .hint("Nothing is lost: run the same command again to go on.");
  }
}

// As the stream waits for a source that is away, so does what it begins with.
Lsn current_barrier(const Context& context) {
  const auto give_up_after = context.options.give_up_after.value_or(kGiveUpAfter);
  const auto begun = Clock::now();
  const auto since = std::time(nullptr);
  Backoff backoff;
  for (;;) {
    try {
      auto source = pg::open_control(context.source(), "barrier");
      return source::emit_barrier(*source);
    } catch (const Error& error) {
      const auto passed = std::chrono::duration_cast<Milliseconds>(Clock::now() - begun);
      if (error.action() != Action::retry) throw;
      if (passed >= give_up_after)
        throw Error(ErrorKind::timed_out, fmt::format("the source has not answered for {}; last error: {}",
                                                      format_duration(passed), error.message()))
            .side(Side::source)
            .sqlstate(error.sqlstate())
            .hint("Nothing is lost: run the same command again when the server is back.");
      const auto pause = std::min(backoff.next(), std::max(give_up_after - passed, Milliseconds(1)));
      log::warning("the source has not answered since {:%H:%M:%S} UTC ({}, --give-up-after {}): {}; trying again in {}",
                   fmt::gmtime(since), format_duration(passed), format_duration(give_up_after), error.message(),
                   format_duration(pause));
      if (!sleep_for(pause, context.stop)) require_reached(stream::Ended::stopped);
    }
  }
}

}  // namespace pgbaton::app
