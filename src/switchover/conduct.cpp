#include <fmt/format.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/words.hpp>

#include <pgbaton/snapshot/way_back.hpp>
#include <pgbaton/state/stop_writer.hpp>

#include <algorithm>
#include <array>

#include "conductor.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kFollowerPatience{30'000}, kPoll{50}, kRestPatience{10'000}, kAlonePatience{5'000};

Error interrupted() {
  return Error(ErrorKind::failed, "interrupted").hint("The source takes writes. Run the same command again.");
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Two that are started together would stop each other's stream. As long as the session lives.
void Conductor::be_the_only_one() {
  const auto deadline = Deadline::after(kAlonePatience);
  const auto taken = [&] {
    return pg::control(Side::target, "looking for another switchover", [&] {
      pqxx::nontransaction tx(*target_);
      return tx
          .exec_params1("select pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0))",
                        state::switchover_lock(options_.names.name))[0]
          .as<bool>();
    });
  };
  while (!taken()) {
    if (deadline.passed() || !sleep_for(kPoll, stop_))
      throw Error(ErrorKind::held_elsewhere,
                  fmt::format("another switchover of replica {} is running", options_.names.name))
          .side(Side::target)
          .hint("Wait for its end; `pgbaton status` shows who has the replica.");
  }
}

void Conductor::run() {
  be_the_only_one();
  // By whoever held us up here.
  if (done_before(options_)) {
    report_.result = options_.reversed ? "already rolled back" : "already switched over";
    report_.source_open = false;
    return;
  }
  store_.install();
  const auto row = store_.load_replica(options_.names.name);
  const bool flipped = row && row->direction == state::kSwitched;
  report_.flipped = flipped;
  if (flipped && row->slot.empty()) {
    report_.result = options_.reversed ? "already rolled back" : "already switched over";
    report_.source_open = false;
    return;
  }
  replica_ = flipped ? *row : load_replica(store_, options_);
  if (options_.readers_only && flipped)
    throw Error(ErrorKind::usage, "the switchover has not ended: the application works on the target")
        .hint("`pgbaton switchover` without --mode ends what is left to be done.");
  if (!flipped) readers_on_target_ = state::readers_on_target(*target_, replica_);
  if (options_.readers_only) {
    source_ = pg::open_control(options_.stream.source, "switchover");
    return readers_only();
  }
  if (!flipped) {
    source_ = pg::open_control(options_.stream.source, "switchover");
    before_flip();
  }
  after_flip();
}

void Conductor::step(const std::string& name, bool in_pause, const std::function<std::string()>& work) {
  steps_.run(name, in_pause, [&] {
    if (stop_.stop_requested() && !flipped_) throw interrupted();
    if (watchdog_) watchdog_->require_watching();
    note(name);
    try {
      auto text = work();
      if (name != kCleanUp) hook_of_step(name);
      if (watchdog_) watchdog_->require_watching();
      return text;
    } catch (const Error& error) {
      if (!too_late() || (error.kind() != ErrorKind::failed && error.kind() != ErrorKind::timed_out)) throw;
      throw deadline_passed(fmt::format("{} ({})", format_duration(settings_.deadline), error.message()));
    }
  });
}

void Conductor::hook_of_step(const std::string& name) {
  if (const auto own = settings_.hooks.find(name); own != settings_.hooks.end()) hook("hooks: " + name, own->second);
}

void Conductor::note(const std::string& name) {
  if (attempt_ == 0 || flipped_) return;
  store_.report_request(attempt_, {{"step", name}, {"barrier_lsn", to_string(report_.barrier_lsn)}});
}

void Conductor::hook(const std::string& setting, const std::string& command) {
  run_hook(setting, command, options_, facts(), stop());
}

Facts Conductor::facts() const {
  return {report_.failed_step, flipped_ != options_.reversed ? "target" : "source", report_.barrier_lsn, replica_,
          readers_on_target_ || flipped_};
}

void Conductor::before_flip() {
  try {
    step("preflight", false, [&] { return look(); });
    step("prepare", false, [&] { return prepare(); });
    if (way_back_) step("way-back", false, [&] { return make_way_back(); });
    if (has_readers(settings_)) step("readers", false, [&] { return readers(); });
    step("fence", true, [&] { return fence(); });
    step("barrier", true, [&] { return barrier(); });
    step("sequences", true, [&] { return bring_sequences(*source_, *target_, settings_.sequence_gap); });
    if (settings_.verification != "off") step("verify", true, [&] { return compare(); });
    step("finish", true, [&] { return finish(); });
    step("flip", true, [&] { return open_target(); });
  } catch (...) {
    if (give_up()) throw;
    log::warning("the flip was recorded before the error: going on");
    watchdog_.reset();
    flipped_ = true;
    report_.failed_step.clear();
  }
  report_.pause = std::chrono::duration_cast<Milliseconds>(Clock::now() - waiting_since_);
}

bool Conductor::give_up() {
  pause_limit_.reset();
  const bool open = open_source();
  report_.source_open = open;
  if (open) options_.course->pause_over();
  if (open) unmake_way_back();
  if (open && writer_)
    log::info("this command streams no more: a follower that waits goes on, else `pgbaton follow` does");
  writer_.reset();
  if (open) {
    readers_back();
    hook_given_up();
  }
  return open;
}

bool Conductor::open_source() {
  if (flipped_) return false;
  const std::string reason = "failed at " + report_.failed_step;
  if (!watchdog_) {
    record_undone(reason);
    return true;
  }
  const auto undone = watchdog_->undo(reason);
  if (undone != Undone::unknown) return undone == Undone::open;
  log::warning("the watchdog is gone: opening the source without it");
  if (!state::undo_switchover(*pg::open_control(options_.stream.target, "switchover"), attempt_, reason)) return false;
  auto connection = open_fence_session(options_.stream.source, "fence");
  open_fence(connection, about_);
  if (!settings_.pgbouncer_pause.empty()) resume();
  remove_fence(connection, Deadline::after(kRestPatience), {}, about_);
  return true;
}

void Conductor::record_undone(const std::string& reason) {
  if (attempt_ == 0) return;
  try {
    state::undo_switchover(*target_, attempt_, reason);
  } catch (const Error& error) {
    log::warning("not recorded that the switchover was given up: {}", error.describe());
  }
}

std::string Conductor::look() {
  shape_ = shape_of(*source_);
  unsent_ = count_unsent(options_, *source_, store_.load_tables(replica_));
  report_.findings = preflight(options_, stop_);
  require_possible(report_.findings, options_.reversed);
  way_back_ = settings_.way_back != "no" &&
              std::ranges::find(report_.findings, kNoWayBack, &snapshot::Finding::id) == report_.findings.end();
  return fmt::format("{}, none in the way", counted(static_cast<std::int64_t>(report_.findings.size()), "finding"));
}

std::string Conductor::make_way_back() {
  snapshot::make_way_back({options_.stream.target, replica_, options_.reversed, options_.clone.slot_wait}, stop_);
  return "slot and publications for the stream back";
}

// What nobody will stream from must not keep WAL.
void Conductor::unmake_way_back() {
  if (!way_back_ || !writer_) return;
  try {
    auto target = pg::open_control(options_.stream.target, "way-back");
    snapshot::unmake_way_back(*target, replica_);
  } catch (const Error& error) {
    log::warning("slot and publications of the way back are left on the target, and go with the next run: {}",
                 error.describe());
  }
}

std::string Conductor::prepare() {
  hook("hook-before", settings_.hook_before);
  become_writer();
  attempt_ = state::begin_switchover(*target_, replica_, host_name(), static_cast<int>(::getpid()));
  // By the holder of the lease alone: another switchover may have flipped this side a moment ago.
  close_target(options_, *source_, *target_, stop_);
  warm(settings_, *target_, store_.load_tables(replica_));
  tables_ = counted_tables(options_, store_, replica_, *source_);
  bring_sequences(*source_, *target_, settings_.sequence_gap);
  if (settings_.verification != "counts") return "streaming";
  try {
    log::info("counting both sides at a cut: open write transactions are waited for, up to {}",
              format_duration(settings_.transaction_wait));
    const auto seen = count_live();
    counted_live_ = true;
    return fmt::format("{}, {} on both sides at a cut", counted(seen.tables, "table"), counted(seen.rows, "row"));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timed_out) throw;
    until_writer_is_free();
    return "not counted live: " + error.message();
  }
}

// A table that is emptied or rewritten meanwhile looks empty to the snapshot of the cut: only twice counts.
Counted Conductor::count_live() {
  try {
    return count_at_cut(options_, tables_, stop_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::differences) throw;
    log::info("{}; counting again", error.message());
    return count_at_cut(options_, tables_, stop_);
  }
}

void Conductor::until_writer_is_free() {
  const auto deadline = Deadline::after(kRestPatience);
  const auto request = store_.insert_request(replica_.name, "nothing", "{}");
  while (store_.request_state(request) != "done" && !deadline.passed() && sleep_for(kPoll, stop_)) writer_->check();
  store_.delete_request(request);
}

void Conductor::become_writer() {
  const auto deadline = Deadline::after(kFollowerPatience);
  for (;;) {
    writer_ = stream::OwnWriter::start(options_.stream, options_.names.name, options_.verify.on_stream_error);
    if (writer_) break;
    log::info("asking the writer of replica {} to stop", replica_.name);
    const auto wanted = state::to_json({{"reason", std::string(state::kStopForSwitchover)}});
    const bool stopped = state::stop_writer(store_, replica_.name, wanted, deadline, stop_);
    if (stop_.stop_requested()) throw interrupted();
    if (stopped && !deadline.passed()) continue;
    throw Error(ErrorKind::timed_out, fmt::format("the writer of replica {} did not stop", replica_.name))
        .side(Side::target)
        .hint("Stop it by hand (SIGTERM), then run the same command again.");
  }
  replica_ = load_replica(store_, options_);
}

namespace {

// What an earlier run has left: this one has fenced nobody.
void look_at_fence(const Options& options, Report& report) {
  try {
    if (report.source_open) report.source_open = !is_fenced(options.stream.source);
  } catch (const Error& error) {
    log::debug("looking for a fence: {}", error.describe());
  }
}

}  // namespace

Report run(const Options& options, const std::stop_token& stop) {
  Report report;
  try {
    Conductor(options, report, stop).run();
  } catch (const Error& error) {
    report.failure = error;
    report.result = "failed";
    look_at_fence(options, report);
  }
  return report;
}

}  // namespace pgbaton::switchover
