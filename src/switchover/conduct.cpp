// The conductor. Before the flip every error ends in undo(), and the watchdog does the same for one that dies; after it
// there is no way but forward, and every step can be done again.
#include <fmt/format.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <pgbaton/snapshot/deferred.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/stream/own_writer.hpp>

#include <array>

#include "fence.hpp"
#include "parts.hpp"
#include "watchdog.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kFollowerPatience{30'000}, kPoll{50};
// Before the fence: so little WAL is applied in milliseconds.
constexpr std::uint64_t kNearBytes = 64 << 10;
constexpr Milliseconds kNearPatience{5'000};
// Beyond catch-up-timeout nothing is gained by waiting: the appliers are at rest, or nothing moves.
constexpr Milliseconds kRestPatience{10'000};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

class Conductor {
 public:
  Conductor(const Options& options, Report& report, const std::stop_token& stop)
      : options_(options),
        settings_(options.settings),
        report_(report),
        steps_(options, report),
        stop_(stop),
        target_(pg::open_control(options.stream.target, "switchover")),
        store_(*target_) {}

  void run() {
    store_.install();
    replica_ = load_replica(store_, options_);
    if (replica_.direction != state::kSwitched) {
      source_ = pg::open_control(options_.stream.source, "switchover");
      before_flip();
    }
    after_flip();
  }

 private:
  void step(const std::string& name, bool in_pause, const std::function<std::string()>& work) {
    steps_.run(name, in_pause, [&] {
      if (stop_.stop_requested() && !flipped_)
        throw Error(ErrorKind::failed, "interrupted").hint("The source takes writes. Run the same command again.");
      if (watchdog_) watchdog_->require_watching();
      note(name);
      return work();
    });
  }

  void note(const std::string& name) {
    if (attempt_ == 0 || flipped_) return;
    store_.report_request(attempt_, {{"step", name}, {"barrier_lsn", to_string(report_.barrier_lsn)}});
  }

  void hook(const std::string& setting, const std::string& command) {
    run_hook(setting, command, options_,
             {report_.failed_step, flipped_ ? "target" : "source", report_.barrier_lsn, replica_}, stop_);
  }

  void before_flip() {
    try {
      step("preflight", false, [&] { return look(); });
      step("prepare", false, [&] { return prepare(); });
      step("fence", true, [&] { return fence(); });
      step("barrier", true, [&] { return barrier(); });
      step("sequences", true, [&] { return bring_sequences(*source_, *target_, settings_.sequence_gap); });
      if (settings_.verification != "off") step("verify", true, [&] { return compare(); });
      step("finish", true, [&] { return finish(); });
      step("flip", true, [&] { return open_target(); });
    } catch (...) {
      if (give_up()) throw;
      log::warning("the flip was recorded before the error: going on");
      flipped_ = true;
      report_.failed_step.clear();
    }
    report_.pause = std::chrono::duration_cast<Milliseconds>(Clock::now() - waiting_since_);
  }

  // True when the source is open again.
  bool give_up() {
    const bool open = open_source();
    report_.source_open = open;
    writer_.reset();
    return open;
  }

  bool open_source() {
    if (flipped_) return false;
    const std::string reason = "failed at " + report_.failed_step;
    if (!watchdog_) {
      record_undone(reason);
      return true;
    }
    const auto undone = watchdog_->undo(reason);
    if (undone != Undone::unknown) return undone == Undone::open;
    log::warning("the watchdog is gone: opening the source without it");
    if (!state::undo_switchover(*pg::open_control(options_.stream.target, "switchover"), attempt_, reason))
      return false;
    auto connection = pg::Connection::open(options_.stream.source, "fence");
    open_fence(connection);
    if (!settings_.pgbouncer_pause.empty()) resume();
    remove_fence(connection, Deadline::after(kRestPatience), {});
    return true;
  }

  // The source was never closed: only for people, and for a follower that waits.
  void record_undone(const std::string& reason) {
    if (attempt_ == 0) return;
    try {
      state::undo_switchover(*target_, attempt_, reason);
    } catch (const Error& error) {
      log::warning("not recorded that the switchover was given up: {}", error.describe());
    }
  }

  std::string look() {
    shape_ = shape_of(*source_);
    report_.findings = preflight(options_);
    require_possible(report_.findings);
    close_target(options_, *source_, *target_, stop_);
    return fmt::format("{} findings, none in the way; the target takes no writes but ours", report_.findings.size());
  }

  std::string prepare() {
    hook("hook-before", settings_.hook_before);
    become_writer();
    attempt_ = state::begin_switchover(*target_, replica_, host_name(), static_cast<int>(::getpid()));
    warm(settings_, *target_, store_.load_tables(replica_));
    tables_ = counted_tables(store_, replica_, *source_);
    bring_sequences(*source_, *target_, settings_.sequence_gap);
    if (settings_.verification != "counts") return "streaming";
    try {
      const auto counted = count_at_cut(options_, tables_, stop_);
      return fmt::format("{} tables, {} rows on both sides at a cut", counted.tables, counted.rows);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timed_out) throw;
      return "not counted live: " + error.message();
    }
  }

  // A follower is asked to stop: from here on the stream is ours.
  void become_writer() {
    const auto deadline = Deadline::after(kFollowerPatience);
    for (;;) {
      writer_ = stream::OwnWriter::start(options_.stream, options_.names.name, options_.verify.on_stream_error);
      if (writer_) break;
      log::info("asking the writer of replica {} to stop", replica_.name);
      const auto request = store_.insert_request(replica_.name, "stop",
                                                 state::to_json({{"reason", std::string(state::kStopForSwitchover)}}));
      while (state::Lease::held(*target_, replica_.name) && !deadline.passed() && sleep_for(kPoll, stop_)) {
      }
      store_.delete_request(request);
      if (stop_.stop_requested() || !deadline.passed()) continue;
      throw Error(ErrorKind::timed_out, fmt::format("the writer of replica {} did not stop", replica_.name))
          .side(Side::target)
          .hint("Stop it by hand (SIGTERM), then run the same command again.");
    }
    replica_ = load_replica(store_, options_);
  }

  std::string fence() {
    for (const auto& table : catalog::load_tables(*source_)) fenced_.push_back(table.name);
    watchdog_.emplace(options_.stream.source, options_.stream.target, attempt_, settings_);
    come_near();
    fence_.emplace(pg::Connection::open(options_.stream.source, "fence"));
    watchdog_->fence(fence_->backend_pid());
    report_.source_open = false;
    log::info("should this machine be lost: pgbaton switchover --undo, or on the source\n{}", undo_statements());
    FenceRequest request{.tables = fenced_,
                         .about = source_about(replica_.name, fmt::format("fenced for a switchover by {}, pid {}",
                                                                          host_name(), ::getpid())),
                         .exempt = {},
                         .transaction_wait = settings_.transaction_wait,
                         .terminate = settings_.long_transactions == "terminate",
                         .before_waiting = pauses() ? [this] { pause_pgbouncer(); } : std::function<void()>{}};
    const auto closed = close_fence(*fence_, request, stop_);
    waiting_since_ = closed.since;
    PGBATON_FAILPOINT("switchover_fenced");
    verify_fence(*fence_, fenced_);
    require_nothing_prepared();
    hook("hook-fenced", settings_.hook_fenced);
    return fmt::format("{} tables, try {}, {} sessions ended", fenced_.size(), closed.attempts, closed.terminated);
  }

  // What the target is behind now, the writers would wait for.
  void come_near() {
    const auto deadline = Deadline::after(kNearPatience);
    while (!deadline.passed() && !stop_.stop_requested()) {
      writer_->check();
      const auto now = catalog::current_flush_lsn(*source_), applied = writer_->stream().durable_end_lsn();
      if (now <= applied || now.value - applied.value < kNearBytes) return;
      sleep_for(kPoll, stop_);
    }
  }

  void require_nothing_prepared() {
    const auto prepared =
        fence_->exec("select gid from pg_catalog.pg_prepared_xacts where database = pg_catalog.current_database()");
    if (prepared.rows() == 0) return;
    throw Error(ErrorKind::preflight, fmt::format("transaction {} is prepared", quote_literal(prepared.text(0, 0))))
        .side(Side::source)
        .hint("COMMIT PREPARED or ROLLBACK PREPARED it, then run the same command again.");
  }

  bool pauses() const { return !settings_.pgbouncer.empty() && !settings_.pgbouncer_pause.empty(); }

  // PAUSE waits for what is under way in the pooler; the fence refuses what it does not hold back.
  void pause_pgbouncer() {
    try {
      pgbouncer_command(settings_.pgbouncer, "PAUSE " + quote_identifier(settings_.pgbouncer_pause),
                        settings_.transaction_wait);
    } catch (const Error& error) {
      log::warning("going on without PAUSE: {}", error.describe());
      resume();
    }
  }

  void resume() {
    try {
      pgbouncer_command(settings_.pgbouncer, "RESUME " + quote_identifier(settings_.pgbouncer_pause));
    } catch (const Error& error) {
      log::debug("{}", error.describe());
    }
  }

  // The appliers rest, so nothing can be beyond the barrier when it is asked for.
  std::int64_t reach_barrier() {
    auto& stream = writer_->stream();
    auto resting = stream.rest();
    await(resting, kRestPatience, "the appliers came to no border of transactions");
    auto rest = std::optional(resting.get());
    report_.barrier_lsn = source::emit_barrier(*source_);
    auto reached = stream.cut(report_.barrier_lsn);
    await(reached, settings_.catch_up_timeout,
          fmt::format("the target did not reach the barrier {}", to_string(report_.barrier_lsn)));
    const auto cut = reached.get();
    return stream.status().changes;
  }

  void await(std::future<stream::Cut>& asked, Milliseconds patience, const std::string& what) {
    const auto deadline = Deadline::after(patience);
    while (asked.wait_for(Milliseconds(10)) != std::future_status::ready) {
      writer_->check();
      if (!deadline.passed() && !stop_.stop_requested()) continue;
      writer_->stream().withdraw();
      throw Error(ErrorKind::timed_out, fmt::format("{} within {}", what, format_duration(patience)))
          .side(Side::target)
          .hint("Let the target catch up first, or give more time with catch-up-timeout.");
    }
  }

  std::string barrier() {
    changes_ = reach_barrier();
    return fmt::format("the target holds everything below {}", to_string(report_.barrier_lsn));
  }

  std::string compare() {
    if (settings_.verification == "counts") {
      const auto counted = count_at_rest(options_, tables_);
      return fmt::format("{} tables, {} rows on both sides; {} were counted before the pause only", counted.tables,
                         counted.rows, counted.left_out);
    }
    const auto compared = verify::run(options_.verify, stop_);
    if (compared.equal())
      return fmt::format("{} tables, {} rows compared, equal", compared.tables.size(), compared.rows());
    throw Error(ErrorKind::differences, fmt::format("{} rows differ", compared.differences_total))
        .hint("`pgbaton verify` names them; `pgbaton verify --repair` mends them.");
  }

  std::string finish() {
    copy::require_deferrable_constraints(*target_, replica_.name);
    snapshot::create_deferred(options_.clone, replica_, stop_);
    return replica_.replica_role ? "" : "foreign keys, triggers and rules made";
  }

  // Nothing has come after the barrier, and the fence stands as it stood.
  void require_standstill() {
    const auto now = reach_barrier();
    verify_fence(*fence_, fenced_);
    if (now != changes_)
      throw Error(ErrorKind::failed, fmt::format("{} changes came after the barrier", now - changes_))
          .side(Side::source)
          .hint("Somebody writes in spite of the fence: find out who, then run the same command again.");
    if (shape_of(*source_) != shape_)
      throw Error(ErrorKind::rejected, "tables of the source were altered during the switchover")
          .side(Side::source)
          .hint("Keep DDL away, mend the target (`pgbaton status` names what differs), and run it again.");
    require_nothing_prepared();
    bring_sequences(*source_, *target_, settings_.sequence_gap);
  }

  std::string open_target() {
    require_standstill();
    auto& lease = writer_->end();
    lease.check();
    watchdog_->require_flip();
    flip(*target_, replica_, attempt_, report_.barrier_lsn);
    flipped_ = true;
    watchdog_->flipped();
    watchdog_.reset();
    return "the target is open, the source stays fenced";
  }

  void after_flip() {
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

  std::string send() {
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

  // What was the replica goes; the fence of the source says what became of it.
  std::string clean_up() {
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

  const Options& options_;
  const Settings& settings_;
  Report& report_;
  Steps steps_;
  const std::stop_token& stop_;
  std::unique_ptr<pg::Control> target_, source_;
  state::Store store_;
  state::Replica replica_;
  std::unique_ptr<stream::OwnWriter> writer_;
  std::optional<Watchdog> watchdog_;
  std::optional<pg::Connection> fence_;
  std::vector<QualifiedName> fenced_;
  std::vector<Count> tables_;
  std::string shape_;
  std::int64_t attempt_ = 0, changes_ = 0;
  Clock::time_point waiting_since_ = Clock::now();
  bool flipped_ = false;
};

}  // namespace

Report run(const Options& options, const std::stop_token& stop) {
  Report report;
  if (done_before(options)) {
    report.result = "already switched over";
    report.source_open = false;
    return report;
  }
  try {
    Conductor(options, report, stop).run();
  } catch (const Error& error) {
    report.failure = error;
    report.result = "failed";
  }
  return report;
}

}  // namespace pgbaton::switchover
