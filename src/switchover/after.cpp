// What follows the flip. It can be done again.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/catalog/event_triggers.hpp>
#include <pgbaton/snapshot/way_back.hpp>

#include <tuple>

#include "conductor.hpp"

namespace pgbaton::switchover {

void Conductor::after_flip() {
  flipped_ = true;
  writer_.reset();
  report_.source_open = false;
  report_.flipped = true;
  if (const auto last = state::load_switchover(*target_, replica_.name)) {
    report_.barrier_lsn = last->barrier_lsn;
  }
  step("send", false, [&] { return send(); });
  if (const auto way_back = state::load_way_back(*target_, replica_.name)) {
    way_back_ = true;
    step("turn", false, [&] { return turn(*way_back); });
    report_.reverse = fmt::format("slot {} at {}: pgbaton follow", way_back->slot, to_string(way_back->from_lsn));
  }
  step(kCleanUp, false, [&] { return clean_up(); });
  report_.result = options_.reversed ? "rolled back" : "switched over";
}

std::string Conductor::send() {
  std::string note;
  if (!settings_.pgbouncer.empty()) {
    const auto& file = options_.reversed ? settings_.pgbouncer_conffile_back : settings_.pgbouncer_conffile;
    pgbouncer_route(settings_.pgbouncer, file);
    if (!settings_.pgbouncer_pause.empty()) resume();
    note = "PgBouncer sends to the target";
  }
  hook("hook-flip", settings_.hook_flip);
  return note;
}

std::string Conductor::turn(const state::WayBack& way_back) {
  auto fence = open_fence_session(options_.stream.source, "fence");
  if (!fence_about(fence))
    throw Error(ErrorKind::failed, "the fence of the former source is gone: somebody may write there")
        .side(Side::source)
        .hint("Without it nothing can stream back. `pgbaton drop` forgets the way back.");
  admit(fence, switched_about(), "pgbaton/");
  auto other = pg::open_control(options_.stream.source, "switchover");
  {
    const catalog::EventTriggersSilenced silent(*other, Side::source);
    state::Store(*other).install();
  }
  state::establish_way_back(*other, replica_.name, way_back);
  return fmt::format("`pgbaton follow` with the same options streams back, from {} on", to_string(way_back.from_lsn));
}

std::string Conductor::switched_about() {
  return source_about(replica_.name, fmt::format("{} at {}", switched_to(*target_), to_string(report_.barrier_lsn)));
}

std::string Conductor::clean_up() {
  auto connection = open_fence_session(options_.stream.source, "fence");
  if (fence_about(connection)) describe_fence(connection, switched_about());
  // As long as there is a state that tells the next run to come here again.
  hook("hook-after", settings_.hook_after);
  hook_of_step(kCleanUp);
  const auto& [source, target] = std::tie(options_.stream.source, options_.stream.target);
  const auto removed = way_back_ ? snapshot::end_switched_stream(source, target, replica_.name, !options_.reversed)
                                 : snapshot::remove_replica(source, target, options_.names);
  if (!removed.left.empty())
    throw Error(ErrorKind::failed, "left over: " + removed.left.front())
        .hint("The application works on the target. Run the same command again to remove the rest.");
  return fmt::format("slot, publications and state of the former stream removed; the former source stays fenced{}",
                     way_back_ ? " for all but pgbaton" : "");
}

}  // namespace pgbaton::switchover
