#include "direction.hpp"

#include <fmt/format.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/switchover.hpp>

#include <optional>

#include "command.hpp"

namespace pgbaton::app {

namespace {

struct Row {
  state::Replica replica;
  std::optional<state::WayBack> way_back;
  bool switched() const { return replica.direction == state::kSwitched; }
};

std::optional<Row> load_row(const pg::Endpoint& endpoint, const std::string& name) {
  auto connection = pg::open_control(endpoint, "direction");
  auto replica = state::Store(*connection).load_replica(name);
  if (!replica) return std::nullopt;
  return Row{std::move(*replica), state::load_way_back(*connection, name)};
}

// The two servers as the flags name them.
Direction compare(const std::optional<Row>& target, const std::optional<Row>& source) {
  const auto leads_to = [](const Row& from, const Row& to) {
    return from.way_back && from.way_back->generation == to.replica.generation;
  };
  if (!target) return Direction::forward;
  if (!target->switched()) {
    const bool record = source && source->switched() && leads_to(*source, *target);
    return record ? Direction::rolled_back : Direction::forward;
  }
  if (!target->way_back) return Direction::without_way_back;
  if (!source || !leads_to(*target, *source)) return Direction::switching;
  return source->switched() ? Direction::rolling_back : Direction::reverse;
}

// Whoever cannot be asked will be missed by the command itself.
template <typename Work>
std::optional<Row> asked(Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    log::debug("looking for the direction: {}", error.describe());
    return std::nullopt;
  }
}

bool is_settled(Direction direction) {
  switch (direction) {
    case Direction::forward:
    case Direction::reverse:
      return true;
    case Direction::rolling_back:
    case Direction::rolled_back:
    case Direction::switching:
    case Direction::without_way_back:
      return false;
  }
  return true;
}

// It holds its lock where its stream led to.
bool conductor_works(const Context& context) {
  const auto works = [&](const pg::Endpoint& server) {
    try {
      return state::switchover_runs(*pg::open_control(server, "direction"), context.names.name);
    } catch (const Error& error) {
      log::debug("looking for a switchover: {}", error.describe());
      return false;
    }
  };
  return works(context.given_target()) || works(context.given_source());
}

// Whoever would stream waits for a switchover that is at work; one that was killed is a person's to end.
Direction settled_direction(const Context& context, bool streams) {
  constexpr Milliseconds kPoll{200};
  auto direction = find_direction(context);
  for (bool told = false; streams && !is_settled(direction) && conductor_works(context); told = true) {
    if (!told) log::info("a switchover is at work: waiting for its end");
    if (!sleep_for(kPoll, context.stop)) break;
    direction = find_direction(context);
  }
  return direction;
}

[[noreturn]] void refuse(const Context& context, Direction direction) {
  const bool back = direction == Direction::rolling_back || direction == Direction::rolled_back;
  throw Error(ErrorKind::usage,
              fmt::format("replica {} was {}, which has not ended: the application works on the {}", context.names.name,
                          back ? "rolled back" : "switched over", back ? "source" : "target"))
      .hint(fmt::format("`pgbaton switchover{}` with the same options ends what is left to be done.",
                        back ? " --rollback" : ""));
}

}  // namespace

Direction find_direction(const Context& context) {
  if (context.options.source.empty() || context.options.target.empty()) return Direction::forward;
  const auto& name = context.names.name;
  const auto target = asked([&] { return load_row(context.given_target(), name); });
  if (!target) return Direction::forward;
  std::optional<Row> source;
  try {
    source = load_row(context.given_source(), name);
  } catch (const Error& error) {
    log::debug("looking for the direction: {}", error.describe());
    // The record on the target alone: what was switched over and ended leads back.
    const bool ended = target->switched() && target->way_back && target->replica.slot.empty();
    return ended ? Direction::reverse : compare(target, std::nullopt);
  }
  return compare(target, source);
}

void turn_round(Context& context) {
  const auto use = find_command(context.options.command)->use;
  constexpr unsigned kFollowsTheStream = kFollow | kStatus | kWait | kVerify | kResync | kSequences | kFinish | kDrop;
  if ((use & (kFollowsTheStream | kClone)) == 0 || context.options.source_is_gone) return;
  const auto direction = settled_direction(context, use == kFollow);
  const bool only_looks = (use & (kStatus | kWait)) != 0;
  switch (direction) {
    case Direction::forward:
      return;
    case Direction::reverse:
      if (use == kClone)
        throw Error(ErrorKind::usage, fmt::format("replica {} was switched over: the application works on the target",
                                                  context.names.name))
            .hint(
                "`pgbaton follow` streams back. `pgbaton drop` ends the replica; then exchange --source and --target.");
      context.reversed = true;
      if (!only_looks) log::info("the application works on the target: the stream leads from there to the source");
      return;
    case Direction::rolling_back:
    case Direction::rolled_back:
    case Direction::switching:
    case Direction::without_way_back:
      if (!only_looks) refuse(context, direction);
      return;
  }
}

bool follow_round(Context& context) {
  constexpr Milliseconds kPoll{200};
  // As long as hooks and a hand that runs the command again may take.
  const auto deadline = Deadline::after(std::chrono::minutes(30));
  // One look may fall between two statements of the switchover, or on a server that does not answer for once.
  constexpr int kLooks = 10;
  for (int same = 0; same < kLooks;) {
    switch (const auto direction = find_direction(context)) {
      case Direction::forward:
      case Direction::reverse: {
        const bool reversed = direction == Direction::reverse;
        if (reversed != context.reversed) {
          context.reversed = reversed;
          return true;
        }
        ++same;
        break;
      }
      case Direction::rolled_back:
        context.reversed = false;
        return true;
      case Direction::without_way_back:
        ++same;
        break;
      case Direction::switching:
      case Direction::rolling_back:
        break;
    }
    if (deadline.passed() || !sleep_for(kPoll, context.stop)) return false;
  }
  return false;
}

}  // namespace pgbaton::app
