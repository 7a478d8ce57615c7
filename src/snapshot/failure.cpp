#include "failure.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/size.hpp>

#include <fmt/format.h>

#include <thread>

#include "fingerprint.hpp"
#include "remnants.hpp"

namespace pgbaton::snapshot {

namespace {

// Another writer owns the replica now, or the command was not meant for it: nothing of it is ours to change.
bool leaves_replica_alone(const Error& error) {
  return error.kind() == ErrorKind::held_elsewhere || error.kind() == ErrorKind::usage;
}

// While the lease is ours nobody else can begin a term; it throws when it is not.
void require_lease(const Build& build) {
  try {
    build.lease.check();
  } catch (const Error& error) {
    if (error.action() != Action::retry) throw;
    build.lease.renew();
  }
}

bool worth_keeping(const Build& build) {
  return build.any_table_committed || build.replica.schema_restored || build.made.schema || !build.made.record;
}

void take_back(Build& build) {
  require_lease(build);
  auto source = pg::open_control(build.options.source, "take-back");
  auto target = pg::open_control(build.options.target, "take-back");
  auto mine = build.replica;
  if (!build.made.slot) mine.slot.clear();
  if (!build.made.publications) mine.publication.clear(), mine.publication_inserts.clear();
  if (build.made.slot) {
    source::end_slot_creators(*source, mine.name);
    source::drop_slot(*source, mine.slot, true);
  }
  if (build.made.publications && mine.owns_publication)
    for (const auto& publication : mine.publications()) source::drop_publication(*source, publication);
  state::Store store(*target);
  store.delete_replica(build.replica.name);
  store.drop_schema_if_unused();
  log::info("nothing was copied yet: slot, publications and state of replica {} were removed again",
            build.replica.name);
}

std::string drop_line(const Build& build) {
  const auto& name = build.options.names.name;
  return fmt::format("pgbaton drop{} --source {} --target {}", name == "default" ? "" : " --name " + name,
                     pg::shell_word(pg::redact(build.options.source.conninfo)),
                     pg::shell_word(pg::redact(build.options.target.conninfo)));
}

void keep(Build& build, const Error& error) {
  bool on_request = build.stop.stop_requested() && error.kind() == ErrorKind::failed;
  if (!on_request) {
    auto target = pg::open_control(build.options.target, "last-error");
    state::Store(*target).store_last_error(build.replica.name, error_json(error));
  }
  std::string held = "the source cannot be asked now how much WAL it holds";
  try {
    auto source = pg::open_control(build.options.source, "last-error");
    auto slot = source::load_slot(*source, build.replica.slot);
    held = slot ? "it holds " + format_size(static_cast<std::uint64_t>(std::max<std::int64_t>(slot->held_bytes, 0))) +
                      " of WAL"
                : "it is gone";
  } catch (const Error& problem) {
    log::debug("asking the source for the slot: {}", problem.describe());
  }
  log::warning("kept for the next run: slot {} on the source ({}), its publications, and the state on the target",
               build.replica.slot, held);
  log::warning("{}remove them with: {}",
               error.kind() == ErrorKind::boundary_lost ? "" : "run the same command again to go on, or ",
               drop_line(build));
}

// What made the clone fail may still be there, such as somebody who ends our sessions.
constexpr Milliseconds kRemovalPatience{10'000}, kRemovalPause{500};

void drop_all(Build& build) {
  const auto deadline = Deadline::after(kRemovalPatience);
  for (;;) {
    std::vector<std::string> left;
    try {
      require_lease(build);
      auto report = remove_replica(build.options.source, build.options.target, build.options.names);
      for (const auto& line : report.removed) log::info("removed {}", line);
      left = std::move(report.left);
    } catch (const Error& error) {
      if (error.action() != Action::retry || deadline.passed()) throw;
      left = {error.describe()};
    }
    if (left.empty()) return;
    if (deadline.passed()) {
      for (const auto& line : left) log::warning("left: {}", line);
      log::warning("remove it with: {}", drop_line(build));
      return;
    }
    log::debug("removing again, left: {}", left.front());
    std::this_thread::sleep_for(kRemovalPause);
  }
}

}  // namespace

void require_own_place(const Build& build, const Error& error) {
  if (build.lease.epoch() == 0 || leaves_replica_alone(error)) return;
  try {
    require_lease(build);
  } catch (const Error& other) {
    if (other.kind() == ErrorKind::held_elsewhere) throw;
    log::debug("asking for the lease: {}", other.describe());
  }
}

void take_back_or_keep(Build& build, const Error& error) noexcept {
  try {
    build.snapshot.reset();
    if (build.replica.phase == state::Phase::none) {
      state::Store(*pg::open_control(build.options.target, "take-back")).drop_schema_if_unused();
    } else if (leaves_replica_alone(error)) {
      return;
    } else if (build.options.on_failure == OnFailure::drop) {
      drop_all(build);
    } else if (worth_keeping(build)) {
      keep(build, error);
    } else {
      take_back(build);
    }
  } catch (const std::exception& problem) {
    log::error("cleaning up after the failure: {}", problem.what());
  }
}

}  // namespace pgbaton::snapshot
