// Taking the fence off without the conductor, and what an earlier run has left to be told.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/way_back.hpp>
#include <pgbaton/state/switchover.hpp>

#include <charconv>
#include <memory>
#include <optional>

#include "fence.hpp"
#include "parts.hpp"
#include "watchdog.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kRemovePatience{10'000};

Error refusal(const std::string& why) {
  return Error(ErrorKind::usage, "--undo: " + why)
      .hint("Both sides would take writes. With --force the source is opened all the same.");
}

// The server by its flag.
std::string_view side_of_application(const Options& options) {
  return options.reversed ? "target" : "source";
}
std::string_view other_side(const Options& options) {
  return options.reversed ? "source" : "target";
}

void call_given_up(const Options& options, const Facts& facts, const std::stop_token& stop) {
  const auto own = options.settings.hooks.find("given-up");
  if (own == options.settings.hooks.end()) return;
  try {
    run_hook("hooks: given-up", own->second, options, facts, stop);
  } catch (const Error& error) {
    log::warning("{}", error.describe());
  }
}

// What an earlier run has sent there, and what the user wants done when nobody changes sides. The fence is off by then,
// whatever becomes of it. Error(failed) for readers who stay where they were.
std::string undo_application(const Options& options, const std::string& done, const std::stop_token& stop) {
  const auto target = pg::open_control(options.stream.target, "switchover");
  const auto replica = state::Store(*target).load_replica(options.names.name);
  if (!replica || replica->direction == state::kSwitched) return {};
  const Facts facts{"undo", std::string(side_of_application(options)), {}, *replica, false};
  std::optional<Error> failure;
  const bool away = state::readers_on_target(*target, *replica);
  try {
    if (away) send_readers(options, *target, facts, stop);
  } catch (const Error& error) {
    failure = error;
  }
  call_given_up(options, facts, stop);
  if (failure)
    throw Error(ErrorKind::failed, fmt::format("{}; the readers were not sent back: {}", done, failure->message()))
        .hint(fmt::format("Mend that and run the same command again. Writers may use the {} all the while.",
                          side_of_application(options)));
  return away ? fmt::format("the readers were sent back to the {}; ", side_of_application(options)) : "";
}

// `source_open`: there is no fence there that this could be about.
std::string undo_target(const Options& options, bool source_open, bool force, const std::stop_token& stop) {
  auto target = pg::open_control(options.stream.target, "switchover");
  const auto last = state::load_switchover(*target, options.names.name);
  if (last && !state::undo_switchover(*target, last->id, "--undo") && !force && !source_open)
    throw refusal("the target has been flipped: the application works there");
  if (last && !last->flipped && !state::Lease::held(*target, options.names.name))
    if (const auto replica = state::Store(*target).load_replica(options.names.name))
      snapshot::unmake_way_back(*target, *replica);
  auto connection = open_fence_session(options.stream.target, "fence");
  const auto there = fence_about(connection);
  if (!closes_target(there, options.names.name)) return {};
  // A former source, which only a person may open, and never beside another one.
  if (*there != target_about(options.names.name) && !(force && source_open))
    return fmt::format("the {} stays closed until finish or drop ({}); ", other_side(options), *there);
  open_fence(connection);
  remove_fence(connection, Deadline::after(kRemovePatience), stop);
  return fmt::format("the {} takes writes again; ", other_side(options));
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
  // It names the server that it went to: an empty database is not it.
  return about && about->starts_with(source_about(options.names.name, switched_to(*target)));
}

namespace {

constexpr std::string_view kAttempt = ", attempt ";

// The attempt that has put up this fence, by what it says of itself. Error(usage) when that is none of this replica.
state::AttemptName attempt_of(const std::string& about, const std::string& replica) {
  const auto at = about.rfind(kAttempt);
  if (!about.starts_with(source_about(replica, "")) || at == about.npos)
    throw refusal(fmt::format("the fence is not of replica {} (\"{}\")", replica, about));
  const auto text = about.substr(at + kAttempt.size());
  const auto slash = text.find('/');
  state::AttemptName name{text.substr(0, slash), 0};
  const auto number = slash == text.npos ? std::string_view() : std::string_view(text).substr(slash + 1);
  std::from_chars(number.data(), number.data() + number.size(), name.id);
  return name;
}

// Only where the target knows the attempt, and that it has not flipped.
void require_not_flipped(const Options& options, const std::string& about) {
  const auto attempt = attempt_of(about, options.names.name);
  auto target = pg::open_control(options.stream.target, "switchover");
  if (!state::knows_attempt(*target, options.names.name, attempt))
    throw refusal(
        "this target does not know the switchover that has fenced the source: it is another one, or its "
        "state is gone, and with it the answer to whether it was flipped");
  if (!state::undo_switchover(*target, attempt.id, "--undo"))
    throw refusal("the target has been flipped: the application works there");
}

void resume_pooler(const Settings& settings) {
  if (settings.pgbouncer.empty() || settings.pgbouncer_pause.empty()) return;
  try {
    pgbouncer_command(settings.pgbouncer, "RESUME " + quote_identifier(settings.pgbouncer_pause));
  } catch (const Error& error) {
    log::debug("{}", error.describe());  // it was not paused
  }
}

}  // namespace

std::string undo(const Options& options, bool force, const std::stop_token& stop) {
  auto source = open_fence_session(options.stream.source, "fence");
  const auto about = fence_about(source);
  if (about && about->find(kSwitchedOver) != about->npos && !force)
    throw refusal(*about).hint(
        "The application works on the other side; `pgbaton switchover --rollback` brings it back where there is a way "
        "back. With --force the source is opened all the same: both sides would take writes.");
  std::string done;
  bool target_asked = false;
  try {
    if (about && !force) require_not_flipped(options, *about);
    done = undo_target(options, !about, force, stop);
    target_asked = true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage || (!about && !force)) throw;
    if (!force) throw refusal("the target cannot be asked whether it was flipped: " + error.describe());
    log::warning("the target was not asked: {}", error.describe());
  }
  const bool opened = about && open_fence(source, *about);
  resume_pooler(options.settings);
  const auto side = side_of_application(options);
  if (!opened) {
    done += fmt::format("there is no fence on the {}: nothing to undo", side);
  } else {
    done += fmt::format("the {} takes writes again", side);
    if (!remove_fence(source, Deadline::after(kRemovePatience), stop, *about))
      done += "; triggers that let everything pass are left on tables that are being read: run it again later";
  }
  if (target_asked) done = undo_application(options, done, stop) + done;
  return done;
}

bool undo_lost(const pg::Endpoint& source_endpoint, const pg::Endpoint& target_endpoint, const std::string& replica,
               const Settings& settings, const std::stop_token& stop) {
  std::optional<pg::Connection> source;
  std::unique_ptr<pg::Control> target;
  try {
    source.emplace(open_fence_session(source_endpoint, "fence"));
    target = pg::open_control(target_endpoint, "switchover");
  } catch (const Error& error) {
    log::debug("looking for a fence: {}", error.describe());
    return false;
  }
  const auto about = fence_about(*source);
  if (!about || !about->starts_with(source_about(replica, "")) || about->find(kAttempt) == about->npos) return false;
  const auto attempt = attempt_of(*about, replica);
  if (!state::knows_attempt(*target, replica, attempt) || !state::undo_switchover(*target, attempt.id, "drop"))
    return false;
  open_fence(*source, *about);
  resume_pooler(settings);
  if (remove_fence(*source, Deadline::after(kRemovePatience), stop, *about)) return true;
  throw Error(ErrorKind::failed,
              "the source takes writes again; triggers that let everything pass are left on tables that are being read")
      .side(Side::source)
      .hint("Nothing else was removed: run the same command again later.");
}

}  // namespace pgbaton::switchover
