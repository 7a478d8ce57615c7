#include <fmt/format.h>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/switchover/standing.hpp>

#include <charconv>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

// What the fence that refuses writes says of itself; nullopt also when its function lets everything pass already.
std::optional<std::string> about_of(pg::Control& server, Side side) {
  return pg::control(side, "looking for a fence", [&]() -> std::optional<std::string> {
    pqxx::nontransaction tx(server);
    const auto rows = tx.exec(
        "select coalesce(pg_catalog.obj_description(n.oid, 'pg_namespace'), '') from pg_catalog.pg_namespace n "
        "join pg_catalog.pg_proc p on p.pronamespace = n.oid and p.proname = 'refuse' "
        "where n.nspname = 'pgbaton_fence' and p.prosrc like '%raise%'");
    return rows.empty() ? std::nullopt : std::optional(rows[0][0].as<std::string>());
  });
}

// "…, attempt GENERATION/NUMBER"
std::int64_t attempt_in(std::string_view about) {
  const auto at = about.rfind('/');
  std::int64_t number = 0;
  if (about.find(", attempt ") != about.npos && at != about.npos)
    std::from_chars(about.data() + at + 1, about.data() + about.size(), number);
  return number;
}

std::string of_attempt(std::int64_t number, const state::SwitchoverAttempt* known) {
  auto text = number > 0 ? fmt::format("attempt {}", number) : std::string("an attempt");
  if (known != nullptr && !known->conductor.empty())
    text += fmt::format(" ({}, {})", known->conductor, known->begun_at);
  return text;
}

Standing standing_of(const state::SwitchoverAttempt* known, const AttemptNow& now, bool of_target) {
  if (known != nullptr && (known->running || known->flipped))
    return now.held ? Standing::conducted : Standing::abandoned;
  return of_target && now.readers_on_target ? Standing::readers_sent : Standing::given_up;
}

std::string what_became(Standing standing, const state::SwitchoverAttempt* known) {
  switch (standing) {
    case Standing::conducted:
      return "is running";
    case Standing::abandoned:
      return known->flipped ? "has flipped and has not ended"
                            : "has lost its conductor, and nobody has given it up yet";
    case Standing::given_up:
      return known == nullptr || known->reason.empty() ? "was given up"
                                                       : fmt::format("was given up ({})", known->reason);
    case Standing::readers_sent:
    case Standing::changed_sides:
    case Standing::foreign:
      return "";
  }
  return "";
}

std::string remedy_of(const StandingFence& fence, const state::SwitchoverAttempt* known, const std::string& name) {
  switch (fence.standing) {
    case Standing::conducted:
    case Standing::foreign:
      return "";
    case Standing::abandoned:
      return known->flipped ? fmt::format("`pgbaton switchover{}` ends it", name)
                            : fmt::format("`pgbaton switchover{} --undo` gives it up", name);
    case Standing::given_up:
      return fence.side == Side::source
                 ? fmt::format("`pgbaton switchover{} --undo` opens it", name)
                 : fmt::format(
                       "it opens with the next `pgbaton switchover`, with `finish` or `drop`, or now with "
                       "`pgbaton switchover{} --undo`",
                       name);
    case Standing::readers_sent:
      return fmt::format("`pgbaton switchover{} --undo` sends them back and opens it", name);
    case Standing::changed_sides:
      return fmt::format("`pgbaton switchover{} --undo --force` opens it for other uses", name);
  }
  return "";
}

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::conducted:
      return "running";
    case Standing::abandoned:
      return "abandoned";
    case Standing::given_up:
      return "given up";
    case Standing::readers_sent:
      return "readers sent";
    case Standing::changed_sides:
      return "changed sides";
    case Standing::foreign:
      return "foreign";
  }
  return "";
}

AttemptNow load_attempt(pg::Control& target, const std::string& name, const std::optional<state::Replica>& replica) {
  auto last = state::load_switchover(target, name);
  const bool before_flip = replica && replica->direction != state::kSwitched;
  return {std::move(last), state::Lease::held(target, name), before_flip && state::readers_on_target(target, *replica)};
}

std::optional<StandingFence> find_fence(pg::Control& server, Side side, const ReplicaNames& names,
                                        const AttemptNow& attempt, bool reverse) {
  const auto about = about_of(server, side);
  if (!about) return std::nullopt;
  const auto flag = side == Side::target ? "--source" : "--target";
  const auto where = reverse ? fmt::format("the {} of the stream, which is {},", pgbaton::to_string(side), flag)
                             : fmt::format("the {}", pgbaton::to_string(side));
  StandingFence fence{side, Standing::foreign, attempt_in(*about), {}, {}};
  const bool of_target = *about == target_about(names.name);
  const state::SwitchoverAttempt* known = attempt.last ? &*attempt.last : nullptr;
  if (about->starts_with(source_about(names.name, std::string(kSwitchedOver)))) {
    fence.standing = Standing::changed_sides;
    fence.message = fmt::format("{} takes no writes but pgbaton's: the application was moved to the other side", where);
  } else if (of_target || about->starts_with(source_about(names.name, ""))) {
    if (of_target && known != nullptr) fence.attempt = known->id;
    if (known != nullptr && known->id != fence.attempt) known = nullptr;
    fence.standing = standing_of(known, attempt, of_target);
    const auto why = fence.standing == Standing::readers_sent
                         ? "readers of the application were sent there"
                         : fmt::format("{} of a switchover {}", of_attempt(fence.attempt, known),
                                       what_became(fence.standing, known));
    fence.message = fmt::format("{} takes no writes{}: {}", where, of_target ? " but pgbaton's" : "", why);
  } else {
    fence.message = fmt::format("{} takes no writes: a fence of pgbaton stands there (\"{}\")", where, *about);
  }
  fence.remedy = remedy_of(fence, known, names.name == "default" ? "" : " --name " + names.name);
  return fence;
}

}  // namespace pgbaton::switchover
