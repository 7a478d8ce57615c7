// From the fence to the flip.
#include <fmt/format.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/member.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <pgbaton/snapshot/deferred.hpp>
#include <pgbaton/source/slot.hpp>

#include "conductor.hpp"
#include "seal.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kPoll{50};
// Before the fence: so little WAL is applied in milliseconds.
constexpr std::uint64_t kNearBytes = 64 << 10;
constexpr Milliseconds kNearPatience{5'000};
// Beyond catch-up-timeout nothing is gained by waiting: the appliers are at rest, or nothing moves.
constexpr Milliseconds kRestPatience{10'000};

}  // namespace

std::string Conductor::fence() {
  for (const auto& table : catalog::load_tables(*source_)) fenced_.push_back(table.name);
  for (const auto& member : catalog::load_members(*source_, Side::source))
    if (member.fenceable) fenced_.push_back(member.name);
  watchdog_.emplace(options_.stream.source, options_.stream.target, attempt_, settings_);
  come_near();
  fence_.emplace(open_fence_session(options_.stream.source, "fence"));
  about_ = source_about(replica_.name, fmt::format("fenced for a switchover by {}, pid {}, attempt {}/{}", host_name(),
                                                   ::getpid(), replica_.generation, attempt_));
  watchdog_->fence(fence_->backend_pid(), about_);
  pause_limit_.emplace(settings_.deadline, stop_);
  report_.source_open = false;
  log::info("should this machine be lost: pgbaton switchover --undo, or on the source\n{}", undo_statements());
  auto request = fence_request();
  const auto closed = close_fence(*fence_, request, stop());
  waiting_since_ = closed.since;
  options_.course->pause_since(closed.since);
  PGBATON_FAILPOINT("switchover_fenced");
  request.all_transactions = false;  // the flip waits for them, while other steps go on
  { const Seal tried(*fence_, request, stop()); }
  require_nothing_prepared();
  hook("hook-fenced", settings_.hook_fenced);
  return fmt::format("{}, try {}, {} ended", counted(std::ssize(fenced_), "table"), closed.attempts,
                     counted(closed.terminated, "session"));
}

FenceRequest Conductor::fence_request() {
  return {.tables = fenced_,
          .about = about_,
          .exempt = {},
          .transaction_wait = settings_.transaction_wait,
          .terminate = settings_.long_transactions == "terminate",
          .all_transactions = true,
          .before_waiting = pauses() ? [this] { pause_pgbouncer(); } : std::function<void()>{},
          .while_waiting = [this] { watchdog_->require_watching(); }};
}

void Conductor::come_near() {
  const auto deadline = Deadline::after(kNearPatience);
  while (!deadline.passed() && !stop_.stop_requested()) {
    writer_->check();
    const auto now = catalog::current_flush_lsn(*source_), applied = writer_->stream().durable_end_lsn();
    if (now <= applied || now.value - applied.value < kNearBytes) return;
    sleep_for(kPoll, stop_);
  }
}

void Conductor::require_nothing_prepared() {
  const auto prepared =
      fence_->exec("select gid from pg_catalog.pg_prepared_xacts where database = pg_catalog.current_database()");
  if (prepared.rows() == 0) return;
  throw Error(ErrorKind::preflight, fmt::format("transaction {} is prepared", quote_literal(prepared.text(0, 0))))
      .side(Side::source)
      .hint("COMMIT PREPARED or ROLLBACK PREPARED it, then run the same command again.");
}

void Conductor::pause_pgbouncer() {
  try {
    pgbouncer_command(settings_.pgbouncer, "PAUSE " + quote_identifier(settings_.pgbouncer_pause),
                      settings_.transaction_wait);
  } catch (const Error& error) {
    log::warning("going on without PAUSE: {}", error.describe());
    resume();
  }
}

void Conductor::resume() {
  try {
    pgbouncer_command(settings_.pgbouncer, "RESUME " + quote_identifier(settings_.pgbouncer_pause));
  } catch (const Error& error) {
    log::debug("{}", error.describe());
  }
}

std::int64_t Conductor::reach_barrier() {
  const auto deadline = Deadline::after(kRestPatience);
  for (;;) {
    try {
      return try_barrier();
    } catch (const std::future_error&) {
      if (deadline.passed() || stop().stop_requested())
        throw Error(ErrorKind::timed_out, "cuts for others were always in the way of the barrier")
            .hint("Let `pgbaton verify` end first, then run the same command again.");
    } catch (const Error& error) {
      if (error.action() != Action::retry || deadline.passed() || stop().stop_requested()) throw;
    }
    writer_->check();
    sleep_for(kPoll, stop());
  }
}

std::int64_t Conductor::try_barrier() {
  auto& stream = writer_->stream();
  auto resting = stream.rest();
  await(resting, kRestPatience, "the appliers came to no border of transactions");
  auto rest = std::optional(resting.get());
  report_.barrier_lsn = source::emit_barrier(*source_);
  options_.course->know("barrier_lsn", to_string(report_.barrier_lsn));
  auto reached = stream.cut(report_.barrier_lsn);
  await(reached, settings_.catch_up_timeout,
        fmt::format("the target did not reach the barrier {}", to_string(report_.barrier_lsn)));
  const auto cut = reached.get();
  return stream.status().changes;
}

void Conductor::await(std::future<stream::Cut>& asked, Milliseconds patience, const std::string& what) {
  const auto deadline = Deadline::after(patience);
  while (asked.wait_for(Milliseconds(10)) != std::future_status::ready) {
    writer_->check();
    if (!deadline.passed() && !stop().stop_requested()) continue;
    writer_->stream().withdraw();
    throw Error(ErrorKind::timed_out, fmt::format("{} within {}", what, format_duration(patience)))
        .side(Side::target)
        .hint("Let the target catch up first, or give more time with catch-up-timeout.");
  }
}

std::string Conductor::barrier() {
  changes_ = reach_barrier();
  return fmt::format("the target holds everything below {}", to_string(report_.barrier_lsn));
}

std::string Conductor::compare() {
  if (settings_.verification == "counts") {
    const auto seen = count_at_rest(options_, tables_);
    auto note = fmt::format("{}, {} on both sides", counted(seen.tables, "table"), counted(seen.rows, "row"));
    if (seen.left_out > 0)
      note += fmt::format("; {} more {}", seen.left_out,
                          counted_live_ ? "were counted before the pause only"
                                        : "were not counted: no time for them here, and no cut before");
    return note;
  }
  const auto compared = verify::run(without_unsent(options_, store_.load_tables(replica_)), stop());
  if (compared.equal())
    return fmt::format("{}, {} compared, equal", counted(std::ssize(compared.tables), "table"),
                       counted(static_cast<std::int64_t>(compared.rows()), "row"));
  throw Error(ErrorKind::differences, fmt::format("{} rows differ", compared.differences_total))
      .hint("`pgbaton verify` names them; `pgbaton verify --repair` mends them.");
}

std::string Conductor::finish() {
  copy::require_deferrable_constraints(*target_, replica_.name);
  snapshot::create_deferred(options_.clone, replica_, stop());
  return replica_.replica_role ? "" : "foreign keys, triggers and rules made";
}

// What the server's statistics tell, which may come up to a second late.
void Conductor::require_nothing_unsent() {
  for (const auto& [table, writes] : count_unsent(options_, *source_, store_.load_tables(replica_)))
    if (writes > unsent_[table])
      throw Error(ErrorKind::preflight,
                  fmt::format("{} has had UPDATEs or DELETEs meanwhile, which are not carried", table.quoted()))
          .side(Side::source)
          .table(table.quoted())
          .hint(fmt::format("pgbaton resync {0}, or allow-left-behind: [{0}] in section switchover.", table.quoted()));
}

void Conductor::require_standstill() {
  const auto now = reach_barrier();
  if (now != changes_)
    throw Error(ErrorKind::failed, fmt::format("{} changes came after the barrier", now - changes_))
        .side(Side::source)
        .hint("Somebody writes in spite of the fence: find out who, then run the same command again.");
  require_nothing_prepared();
  require_nothing_unsent();
  bring_sequences(*source_, *target_, settings_.sequence_gap);
  // As late as can be: new tables may be made all the time.
  if (shape_of(*source_) != shape_)
    throw Error(ErrorKind::rejected, "tables of the source were altered during the switchover")
        .side(Side::source)
        .hint("Keep DDL away, mend the target (`pgbaton status` names what differs), and run it again.");
}

std::string Conductor::open_target() {
  const auto request = fence_request();
  const Seal seal(*fence_, request, stop());
  require_standstill();
  auto& lease = writer_->end();
  lease.check();
  watchdog_->require_flip();
  // Behind all that was applied, and before anything that the application will write.
  const auto from_lsn = way_back_ ? source::emit_barrier(*target_) : Lsn{};
  flip(*target_, replica_, attempt_, report_.barrier_lsn, from_lsn, [&] { seal.require(); });
  flipped_ = true;
  options_.course->pause_over();
  watchdog_->flipped();
  watchdog_.reset();
  pause_limit_.reset();
  return "the target is open, the source stays fenced";
}

}  // namespace pgbaton::switchover
