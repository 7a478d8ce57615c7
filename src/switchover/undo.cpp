// Taking the fence off without the conductor, and what an earlier run has left to be told.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/way_back.hpp>
#include <pgbaton/state/switchover.hpp>

#include "fence.hpp"
#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kRemovePatience{10'000};

Error refusal(const std::string& why) {
  return Error(ErrorKind::usage, "--undo: " + why)
      .hint("Both sides would take writes. With --force the source is opened all the same.");
}

std::string undo_target(const Options& options, bool force, const std::stop_token& stop) {
  auto target = pg::open_control(options.stream.target, "switchover");
  const auto last = state::load_switchover(*target, options.names.name);
  if (last && !state::undo_switchover(*target, last->id, "--undo") && !force)
    throw refusal("the target has been flipped: the application works there");
  if (last && !last->flipped && !state::Lease::held(*target, options.names.name))
    if (const auto replica = state::Store(*target).load_replica(options.names.name))
      snapshot::unmake_way_back(*target, *replica);
  auto connection = pg::Connection::open(options.stream.target, "fence");
  const auto there = fence_about(connection);
  if (!there || *there != target_about(options.names.name)) return {};
  open_fence(connection);
  remove_fence(connection, Deadline::after(kRemovePatience), stop);
  return "the target takes writes again; ";
}

}  // namespace

bool is_fenced(const pg::Endpoint& server) {
  auto connection = pg::Connection::open(server, "fence");
  return fence_about(connection).has_value();
}

bool done_before(const Options& options) {
  auto target = pg::open_control(options.stream.target, "switchover");
  if (state::Store(*target).load_replica(options.names.name)) return false;
  auto source = pg::Connection::open(options.stream.source, "fence");
  const auto about = fence_about(source);
  return about && about->starts_with(source_about(options.names.name, std::string(kSwitchedOver)));
}

std::string undo(const Options& options, bool force, const std::stop_token& stop) {
  auto source = pg::Connection::open(options.stream.source, "fence");
  const auto about = fence_about(source);
  if (about && about->find(kSwitchedOver) != about->npos && !force) throw refusal(*about);
  std::string done;
  try {
    done = undo_target(options, force, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    if (!force) throw refusal("the target cannot be asked whether it was flipped: " + error.describe());
    log::warning("the target was not asked: {}", error.describe());
  }
  if (!open_fence(source)) return done + "there is no fence on the source: nothing to undo";
  done += "the source takes writes again";
  if (!remove_fence(source, Deadline::after(kRemovePatience), stop))
    done += "; triggers that let everything pass are left on tables that are being read: run it again later";
  return done;
}

}  // namespace pgbaton::switchover
