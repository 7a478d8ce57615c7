// wait: reads state in a loop. What it looks at may not exist yet (no replica, no schema, a target that is just
// starting): that is no error before the timeout. What ends it early is an error that the writer recorded.
//
// An error may be from a run that was over before the wait began, while the next run is just being started beside us:
// such an old one counts only when no writer has taken the lease within kGrace.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>

#include <algorithm>
#include <array>

#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/state/lease.hpp>
#include "command.hpp"
#include "known.hpp"
#include "render.hpp"
#include "status.hpp"

namespace pgbaton::app {

namespace {

constexpr Milliseconds kPoll{200};
constexpr Milliseconds kGrace{3000};

struct Look {
  std::optional<state::Replica> replica;
  bool writer_holds = false;
  Lsn applied_lsn, largest_boundary;
  state::Report report;
  std::vector<state::Doubt> doubts;
  std::string known;        // other replicas, when there is none of this name
  bool being_made = false;  // its row came a moment after the look
};

Look look(pg::Control& target, const std::string& name) {
  state::Store store(target);
  Look now;
  now.replica = store.load_replica(name);
  if (!now.replica) now.known = known_replicas(store);
  if (!now.replica) now.being_made = std::ranges::count(store.replica_names(), name) > 0;
  if (!now.replica) return now;
  now.writer_holds = state::Lease::held(target, name);
  if (now.replica->phase < state::Phase::streaming) return now;
  now.applied_lsn = store.load_progress(*now.replica).applied_lsn;
  now.report = store.load_report(*now.replica);
  now.doubts = state::load_doubts(target, name);
  for (const auto& table : store.load_tables(*now.replica))
    now.largest_boundary = std::max(now.largest_boundary, table.boundary);
  return now;
}

ErrorKind kind_of(int code) {
  constexpr std::array kKinds = {ErrorKind::failed,         ErrorKind::usage,     ErrorKind::preflight,
                                 ErrorKind::boundary_lost,  ErrorKind::timed_out, ErrorKind::differences,
                                 ErrorKind::held_elsewhere, ErrorKind::rejected};
  auto found = std::ranges::find(kKinds, code, exit_code);
  return found == kKinds.end() ? ErrorKind::failed : *found;
}

class Waiter {
 public:
  explicit Waiter(Context& context)
      : context_(context),
        goal_(context.options.wait_for),
        limit_(context.options.timeout.value_or(context.options.give_up_after.value_or(kGiveUpAfter))) {}

  // Until the goal is reached; throws for everything else.
  void run() {
    auto deadline = Deadline::after(limit_);
    auto started = Clock::now();
    if (goal_ == "caught-up") context_.source();  // a missing --source is told at once
    while (true) {
      if (round(Clock::now() - started > kGrace)) return;
      if (deadline.passed()) throw timeout();
      if (!sleep_for(std::max(deadline.left(kPoll), Milliseconds(1)), context_.stop))
        throw Error(ErrorKind::failed, "interrupted while waiting").hint("Run the same command again.");
    }
  }
  const std::string& generation() const { return generation_; }

 private:
  bool round(bool grace_over) {
    try {
      if (!target_) target_ = pg::open_control(context_.target(), "wait");
      if (goal_ == "caught-up" && !target_lsn_) read_source_position();
      Look now = look(*target_, context_.names.name);
      seen_ = now.replica ? std::string(to_string(now.replica->phase)) : "none";
      applied_lsn_ = now.applied_lsn;
      generation_ = now.replica ? now.replica->generation : "";
      to_ready_ = now.replica ? missing_for_ready(*now.replica, now.applied_lsn, now.report, now.doubts) : "";
      // A step that was reached stays; the replica is of no use all the same.
      const bool broken = now.replica && now.replica->history_break && !now.writer_holds;
      if (reached(now) && !broken) return true;
      say_what_is_missing(now);
      meet_last_error(now, grace_over);
      first_look_ = false;
    } catch (const Error& error) {
      if (error.action() != Action::retry) throw;
      problem_ = error.describe();
      target_.reset();
    }
    return false;
  }

  void read_source_position() {
    snapshot::require_own_source(context_.source(), context_.target(), context_.names.name);
    auto source = pg::open_control(context_.source(), "wait");
    target_lsn_ = catalog::current_insert_lsn(*source);  // a wait writes nothing
    log::info("waiting until {} is durable on the target", to_string(target_lsn_));
  }

  bool reached(const Look& now) const {
    if (!now.replica) return false;
    if (goal_ == "copied") return now.replica->phase >= state::Phase::indexing;
    if (goal_ == "indexed") return now.replica->phase >= state::Phase::streaming;
    if (goal_ == "ready") return now.replica->phase == state::Phase::ready;
    return now.replica->phase >= state::Phase::streaming && now.applied_lsn >= target_lsn_ &&
           now.applied_lsn >= now.largest_boundary;
  }

  // At once and once: whoever waits for something that nobody does should not learn it at the timeout.
  void say_what_is_missing(const Look& now) {
    if (now.replica && now.writer_holds) missing_.clear();
    if (now.being_made || (now.replica && now.writer_holds)) return;
    auto text = now.replica ? fmt::format("no writer runs for replica {} (phase {}): `pgbaton {}` would go on",
                                          context_.names.name, seen_,
                                          now.replica->phase < state::Phase::streaming ? "clone" : "follow")
                            : fmt::format("there is no replica named {} on the target yet{}{}", context_.names.name,
                                          now.known.empty() ? "" : "; ", now.known);
    if (text != missing_) log::info("{}; waiting", text);
    missing_ = text;
  }

  void meet_last_error(const Look& now, bool grace_over) {
    std::string text = now.replica ? now.replica->last_error : "";
    // What a start has recorded outlives the error, which the next start takes away.
    const auto broken = text.empty() && now.replica ? now.replica->history_break : std::nullopt;
    if (broken) text = broken->at;
    if (first_look_) old_error_ = text;
    if (text.empty() || now.writer_holds) return;
    if (text == old_error_ && !grace_over) return;
    if (broken)
      throw Error(ErrorKind::boundary_lost, fmt::format("{} (found at {})", broken->message, time_text(broken->at)))
          .side(Side::source)
          .hint(broken->hint);
    auto error = parse_last_error(text).value_or(LastError{});
    throw Error(kind_of(error.exit_code), fmt::format("the writer ended at {}: {}", time_text(error.at), error.message))
        .hint(error.hint);
  }

  Error timeout() const {
    auto message = fmt::format("replica {} is not {} after {}: phase {}", context_.names.name, goal_,
                               format_duration(limit_), seen_);
    if (target_lsn_) message += fmt::format(", applied {} of {}", to_string(applied_lsn_), to_string(target_lsn_));
    if (goal_ == "ready" && !to_ready_.empty()) message += ", " + to_ready_;
    if (!missing_.empty()) message += "; " + missing_;
    if (!problem_.empty()) message += "; " + problem_;
    return Error(ErrorKind::timed_out, message)
        .hint("`pgbaton status` shows whether a writer runs; a longer --timeout waits on.");
  }

  Context& context_;
  const std::string goal_;
  const Milliseconds limit_;
  std::unique_ptr<pg::Control> target_;
  Lsn target_lsn_;  // of caught-up
  Lsn applied_lsn_;
  std::string seen_ = "unknown", problem_, missing_, old_error_, generation_, to_ready_;
  bool first_look_ = true;
};

}  // namespace

int run_wait(Context& context) {
  Waiter waiter(context);
  waiter.run();
  if (context.options.json)
    print(small_json(
        {{"name", context.names.name}, {"reached", context.options.wait_for}, {"generation", waiter.generation()}}));
  return 0;
}

}  // namespace pgbaton::app
