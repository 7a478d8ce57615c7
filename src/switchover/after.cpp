// What follows the flip. It can be done again.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>

#include "conductor.hpp"

namespace pgbaton::switchover {

void Conductor::after_flip() {
  flipped_ = true;
  writer_.reset();
  report_.source_open = false;
  if (const auto last = state::load_switchover(*target_, replica_.name)) {
    report_.barrier_lsn = last->barrier_lsn;
  }
  step("send", false, [&] { return send(); });
  step("clean-up", false, [&] { return clean_up(); });
  report_.result = "switched over";
}

std::string Conductor::send() {
  std::string note;
  if (!settings_.pgbouncer.empty()) {
    if (!settings_.pgbouncer_conffile.empty())
      pgbouncer_command(settings_.pgbouncer, "SET conffile = " + quote_literal(settings_.pgbouncer_conffile));
    pgbouncer_command(settings_.pgbouncer, "RELOAD");
    if (!settings_.pgbouncer_pause.empty()) resume();
    note = "PgBouncer sends to the target";
  }
  hook("hook-flip", settings_.hook_flip);
  return note;
}

std::string Conductor::clean_up() {
  auto connection = pg::Connection::open(options_.stream.source, "fence");
  if (fence_about(connection))
    describe_fence(connection, source_about(replica_.name, fmt::format("{} to another server at {}", kSwitchedOver,
                                                                       to_string(report_.barrier_lsn))));
  const auto removed = snapshot::remove_replica(options_.stream.source, options_.stream.target, options_.names);
  if (!removed.left.empty())
    throw Error(ErrorKind::failed, "left over: " + removed.left.front())
        .hint("The application works on the target. Run the same command again to remove the rest.");
  hook("hook-after", settings_.hook_after);
  return "slot, publications and state removed; the former source stays fenced";
}

}  // namespace pgbaton::switchover
