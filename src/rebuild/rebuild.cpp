// The run: lock → what earlier runs have left → check → a generation → swap → what went out of use.
#include <fmt/format.h>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/time_limit.hpp>
#include <pgbaton/snapshot/blockers.hpp>

#include <algorithm>

#include "build.hpp"
#include "database.hpp"
#include "programs.hpp"
#include "swap.hpp"

namespace pgbaton::rebuild {

namespace {

// A writer that takes longer has sessions that the swap ends.
constexpr Milliseconds kWriterPatience{15'000};

void require_time(const TimeLimit& limit, const Options& options) {
  if (!limit.passed()) return;
  throw Error(ErrorKind::timed_out, fmt::format("the new generation was not complete within --max-duration {}",
                                                format_duration(*options.max_duration)))
      .hint("The live database is as it was; give it more time, or more --jobs.");
}

constexpr Milliseconds kTakeBackPatience{5'000};

void log_report(const snapshot::RemovalReport& report) {
  for (const auto& line : report.removed) log::info("removed {}", line);
  for (const auto& line : report.left) log::warning("left of an earlier run: {}", line);
}

void preflight(const Options& options) {
  require_readable(options.sql_files);
  snapshot::require_no_blocker(check_both_sides(options), kCheckCommand);
}

// What was made goes at once; what cannot go now goes with the next run.
void take_back(Registry& registry, const Generation& generation) noexcept {
  try {
    registry.keep_locked(generation.id);
    log_report(remove_generation(registry, generation, kTakeBackPatience));
  } catch (const std::exception& error) {
    log::warning("the next run removes what is left of {}: {}", generation.kept_name(), error.what());
  }
}

// The stream into a database that serves no more ends, and its slot goes. What could not be removed is returned.
std::vector<std::string> retire(Registry& registry, Generation outgoing) {
  outgoing.state = "kept";
  PGBATON_FAILPOINT("rebuild_retiring");
  if (outgoing.on_source.empty()) return {};
  const auto report = release_replica(registry, outgoing);
  log_report(report);
  if (report.left.empty()) registry.store_on_source(outgoing, "");
  PGBATON_FAILPOINT("rebuild_retired");
  return report.left;
}

// A slot that stays holds WAL: a success that says nothing of it would be none.
void require_nothing_left(const std::vector<std::string>& left) {
  if (left.empty()) return;
  throw Error(ErrorKind::failed, fmt::format("of former generations could not be removed: {}", fmt::join(left, "; ")))
      .hint("The next run removes it, or `pgbaton drop`; until then a slot that is named holds WAL on the source.");
}

void exchange(Registry& registry, const Options& options, std::optional<Generation>& outgoing,
              const Generation& incoming, Summary& summary, const std::stop_token& stop) {
  options.course->begin("swap");
  if (outgoing) stop_writer(registry, *outgoing, std::min(kWriterPatience, options.swap_timeout), stop);
  PGBATON_FAILPOINT("rebuild_before_swap");
  const auto done =
      swap(registry, outgoing ? &*outgoing : nullptr, incoming, options.readers, options.swap_timeout, stop);
  options.course->know("database", registry.name());
  options.course->end(fmt::format("new sessions waited {}", format_duration(done.time)));
  summary.swap_time = done.time;
  summary.ended_sessions = done.ended_sessions;
  if (outgoing) summary.database = outgoing->kept_name();
  log::info("database {} is generation {} now; the swap took {}", registry.name(), incoming.id,
            format_duration(done.time));
}

// The new generation serves already: an error says so.
void clean_up(Registry& registry, const Options& options, const std::optional<Generation>& outgoing,
              Generation incoming, Summary& summary, const std::stop_token& stop) {
  try {
    incoming.state = "live";
    options.course->begin("clean-up");
    std::vector<std::string> left;
    if (outgoing) left = retire(registry, *outgoing);
    summary.dropped = prune(registry, options.keep, left);
    PGBATON_FAILPOINT("rebuild_pruned");
    if (!options.after_swap.empty()) options.course->begin("after-swap");
    run_hook("after-swap", options.after_swap, incoming, incoming.live, stop);
    if (options.mode == Mode::once) require_nothing_left(left);
    for (const auto& line : left) log::error("of a former generation could not be removed: {}", line);  // streams on
  } catch (Error& error) {
    error.context(fmt::format("generation {} serves, but afterwards", incoming.id));
    throw;
  }
}

Generation build_and_swap(Registry& registry, const Options& options, std::optional<Generation>& outgoing,
                          Summary& summary, copy::CopyProgress& progress, const std::stop_token& stop) {
  TimeLimit limit(options.max_duration, stop);
  auto generation = registry.begin(options.mode == Mode::once ? "once" : "follow");
  summary.id = generation.id;
  options.course->know("generation", std::to_string(generation.id));
  try {
    build(registry, generation, outgoing, options, summary, progress, limit.token());
    limit.lift();
    require_time(limit, options);
    registry.keep_locked(generation.id);
    exchange(registry, options, outgoing, generation, summary, stop);
  } catch (Error& error) {
    options.course->know("database", "");
    take_back(registry, generation);
    require_time(limit, options);
    if (stop.stop_requested())
      error.hint("The live database is as it was. Run the same command again: it begins anew.");
    throw;
  }
  return generation;
}

}  // namespace

Summary run(const Options& options, copy::CopyProgress& progress, const std::stop_token& stop) {
  const auto start = Clock::now();
  options.course->begin("preflight");
  preflight(options);
  Registry registry(options.place);
  registry.install();
  registry.lock();
  PGBATON_FAILPOINT("rebuild_locked");
  log_report(sweep_leftovers(registry));
  PGBATON_FAILPOINT("rebuild_swept");
  Summary summary;
  summary.live = registry.name();
  auto outgoing = registry.settle_live();
  auto generation = build_and_swap(registry, options, outgoing, summary, progress, stop);
  clean_up(registry, options, outgoing, generation, summary, stop);
  options.course->end();
  summary.time = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
  return summary;
}

Summary roll_back(const Options& options, const std::stop_token& stop) {
  const auto start = Clock::now();
  snapshot::require_no_blocker(check_place(options), kCheckCommand);
  Registry registry(options.place);
  registry.install();
  registry.lock();
  auto outgoing = registry.settle_live();
  auto incoming = registry.previous(outgoing);
  Summary summary;
  summary.live = registry.name();
  summary.id = incoming.id;
  summary.position = incoming.position;
  options.course->know("generation", std::to_string(incoming.id));
  exchange(registry, options, outgoing, incoming, summary, stop);
  options.course->begin("clean-up");
  if (outgoing) require_nothing_left(retire(registry, *outgoing));
  summary.time = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
  return summary;
}

std::vector<Listed> list(const Place& place) {
  Registry registry(place);
  std::vector<Listed> listed;
  if (!registry.installed()) return listed;
  const bool running = registry.locked();
  for (const auto& generation : registry.load()) {
    Listed line{
        generation.id,     generation.database(), generation.state,   generation.built,       0,
        generation.source, generation.started_at, generation.live_at, generation.age_seconds, generation.position};
    if (generation.state == "building" && !running) line.state = "interrupted";  // the next run removes it
    const auto oid = registry.oid_of(line.database);
    if (oid == 0 || (generation.oid != 0 && oid != generation.oid))
      line.state = line.state == "interrupted" ? line.state : "missing";
    else
      line.bytes = registry.run("reading a database's size", fmt::format("select pg_database_size({}::oid)", oid))[0][0]
                       .as<std::int64_t>();
    listed.push_back(std::move(line));
  }
  return listed;
}

snapshot::RemovalReport sweep(const Place& place) {
  try {
    Registry registry(place);
    if (!registry.installed() || registry.load().empty()) return {};
    registry.lock();
    return sweep_leftovers(registry);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::held_elsewhere) return {{}, {error.describe()}};
    log::debug("looking for generations: {}", error.describe());
    return {};
  }
}

}  // namespace pgbaton::rebuild
