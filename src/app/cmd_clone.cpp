// clone: preflight → lease → handoff (snapshot::run_clone) → the stream, as far as the flags say.
//
// The lease comes before the preflight where the state schema exists already, so that a second start is told that the
// first one runs (exit 7) instead of being told about the first one's objects. Without a schema the preflight comes
// first: a refused clone leaves nothing behind, not even an empty schema.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/snapshot/check.hpp>
#include <pgbaton/source/history.hpp>

#include <set>

#include "command.hpp"
#include "copy_report.hpp"
#include "events.hpp"
#include "layout.hpp"
#include "monitor.hpp"
#include "progress.hpp"
#include "render.hpp"
#include "resync_shadow.hpp"
#include "rounds.hpp"
#include "source_watch.hpp"
#include "wal_watch.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

snapshot::CheckOptions check_options(const Context& context, bool resume) {
  snapshot::CheckOptions options;
  options.clone = context.clone_options(true);
  options.resume = resume;
  return options;
}

void enforce(const std::vector<snapshot::Finding>& findings) {
  snapshot::require_no_blocker(findings);
  for (const auto& finding : findings)
    if (finding.severity == snapshot::Severity::warning) log::warning("{}: {}", finding.object, finding.message);
}

// Before any other connection: behind a pooler even the lease would mean nothing.
void require_direct_routes(const Context& context) {
  enforce(snapshot::check_routes(check_options(context, false)));
}

void preflight(const Context& context, const std::optional<state::Replica>& replica) {
  if (replica && replica->phase >= state::Phase::indexing) return;  // nothing will be created on the source any more
  enforce(snapshot::run_check(check_options(context, replica.has_value())));
}

int print_plan(Context& context) {
  auto target = pg::open_control(context.target(), "plan");
  state::Store store(*target);
  auto replica = store.load_replica(context.names.name);
  preflight(context, replica);
  std::set<QualifiedName> kept;
  if (replica)
    for (const auto& table : store.load_tables(*replica))
      if (is_copied(table)) kept.insert(table.name);
  auto plan = snapshot::plan_clone(context.clone_options(true), kept);
  auto phase = state::to_string(replica ? replica->phase : state::Phase::none);
  if (context.options.json)
    print(plan_json(plan, phase));
  else
    print_text(plan_text(plan, phase));
  return 0;
}

// Whether the state schema exists; an older one is migrated, a newer one refused.
bool prepare_schema(const Context& context) {
  auto target = pg::open_control(context.target(), "state");
  state::Store store(*target);
  bool installed = store.installed();
  if (!installed) preflight(context, std::nullopt);
  store.install();
  return installed;
}

Writer begin(const Context& context) {
  bool installed_before = prepare_schema(context);
  Writer writer = become_writer(context);
  if (!installed_before) return writer;  // the preflight is done
  state::Store store(*writer.target);
  auto replica = store.load_replica(context.names.name);
  if (replica && context.options.restart) {
    snapshot::require_own_source(context.source(), context.target(), context.names.name);
    log::info("--restart: emptying the tables that replica {} recorded", context.names.name);
    remove_shadow(context);
    snapshot::reset_replica(context.source(), context.target(), context.names.name);
    replica = store.load_replica(context.names.name);  // begun anew: phase creating
  }
  preflight(context, replica);
  return writer;
}

snapshot::CloneSummary copy(const Context& context, state::Lease& lease) {
  copy::CopyProgress progress;
  WalWatch watch(context, &progress, {.base = context.names.base, .slot = context.names.base});
  const CopyReport report(context, progress, watch);
  ProgressDisplay display(context.progress_style(), copy_view(progress));
  const auto shown = show(context, progress);
  return watch.run([&](const std::stop_token& stop) {
    return snapshot::run_clone(context.clone_options(true), lease, progress, stop);
  });
}

// What the slot is said to keep it must keep: a copied replica may be looked at again long after. A source that is away
// just after its copy is no loss.
void require_unbroken_stream(const Context& context, state::Store& store, bool copied_now) {
  const auto replica = require_replica(context, store);
  try {
    auto source = pg::open_control(context.source(), "history");
    source::require_history(
        store, *source, context.source(), replica,
        source::expected_history(replica, store.load_progress(replica), store.load_tables(replica)));
  } catch (const Error& error) {
    if (!copied_now || error.action() != Action::retry) throw;
    log::warning("whether the slot is still there could not be looked at: {}", error.describe());
  }
}

// What follows the copy: nothing, a bounded catch-up, or a stream without end.
RunResult hand_over(const Context& context, state::Store& store, state::Lease& lease) {
  RunResult result{"clone", context.names.name, "copied", copy(context, lease), std::nullopt, {}};
  const Options& options = context.options;
  pg::revive(store.connection(), context.target(), "state");  // the copy goes on through a restart of the target
  if (!options.follow && options.until.empty()) {
    require_unbroken_stream(context, store, result.clone->tables > 0);
    const SourceWatch look_once(context, require_replica(context, store));  // a stream would look by itself
    log::info("copied; slot {} keeps the changes until `pgbaton follow` applies them", context.names.base);
    return result;
  }
  if (result.clone->tables > 0)
    log::info("the copy is complete: {}, {}, {}; now the changes committed since",
              counted(result.clone->tables, "table"), counted(result.clone->rows, "row"),
              size_text(result.clone->bytes));
  state::Replica replica = require_replica(context, store);
  stream::Until until = stream::OpenEnded{};
  if (!options.follow) until = stream::UntilApplied{current_barrier(context)};
  StreamRun run = run_stream(context, lease, replica, until, !options.follow);
  if (!options.follow) require_reached(run.ended);
  result.stream = run.status;
  result.stream_time = run.time;
  result.result = options.follow ? "stopped" : "caught-up";
  return result;
}

}  // namespace

int run_clone(Context& context) {
  context.source();  // missing or malformed connection strings are told before anything is connected
  require_direct_routes(context);
  if (context.options.dry_run) return print_plan(context);
  EventFile events(context);  // before anything is made: its path may be wrong
  const auto start = [&] {
    auto writer = begin(context);
    events.add("clone_started");
    return writer;
  };
  const auto work = [&](state::Store& store, state::Lease& lease) { return hand_over(context, store, lease); };
  const auto result = run_rounds(context, events, {start, work});
  events.add("clone_ended", fmt::format(R"({{"result": "{}"}})", result.result));
  if (context.options.json)
    print(run_json(result));
  else if (!context.options.quiet)
    print_text(run_text(result));
  return 0;
}

}  // namespace pgbaton::app
