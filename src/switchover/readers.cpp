// Readers of the application, who may change sides before the writers do: the target is closed to writes, and what they
// see there is as old as the stream is behind. Where they are is a record of the target (pgbaton/state/switchover.hpp),
// made before they are sent there and taken back after they have returned, so that nobody is forgotten there.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/size.hpp>
#include <pgbaton/catalog/server.hpp>

#include "conductor.hpp"
#include "watchdog.hpp"

namespace pgbaton::switchover {

bool has_readers(const Settings& settings) {
  return !settings.hook_readers.empty() || !settings.pgbouncer_readers.empty();
}

void send_readers(const Options& options, pg::Control& target, const Facts& facts, const std::stop_token& stop) {
  const auto& settings = options.settings;
  if (facts.readers_on_target) state::record_readers(target, facts.replica, true);
  if (!settings.pgbouncer_readers.empty()) {
    const bool back = facts.readers_on_target == options.reversed;
    const auto& file = back ? settings.pgbouncer_readers_conffile_back : settings.pgbouncer_readers_conffile;
    pgbouncer_route(settings.pgbouncer_readers, file);
  }
  run_hook("hook-readers", settings.hook_readers, options, facts, stop);
  if (!facts.readers_on_target) state::record_readers(target, facts.replica, false);
}

std::string Conductor::readers() {
  const auto lag = [&] {
    const auto applied = store_.load_progress(replica_).applied_lsn, now = catalog::current_flush_lsn(*source_);
    return now > applied ? now.value - applied.value : 0;
  };
  const auto behind = lag();
  if (behind > settings_.max_lag)
    throw Error(ErrorKind::preflight,
                fmt::format("the target is {} of WAL behind, more than max-lag ({}): readers would see old rows",
                            format_size(behind), format_size(settings_.max_lag)))
        .side(Side::target)
        .hint("Wait until it has caught up: pgbaton wait --for caught-up");
  sent_readers_ = !readers_on_target_;
  readers_on_target_ = true;
  send_readers(options_, *target_, facts(), stop_);
  return fmt::format("readers use the {}, {} of WAL behind (max-lag {}); writers stay",
                     options_.reversed ? "source" : "target", format_size(behind), format_size(settings_.max_lag));
}

// By a connection of its own: the other one may be what failed. Not to be interrupted.
void Conductor::readers_back() noexcept {
  if (!sent_readers_) return;
  readers_on_target_ = false;
  try {
    send_readers(options_, *pg::open_control(options_.stream.target, "switchover"), facts(), {});
    log::info("the readers were sent back");
  } catch (const std::exception& error) {
    log::warning("the readers were not sent back, which `pgbaton switchover --undo` does: {}", error.what());
  }
}

void Conductor::hook_given_up() noexcept {
  try {
    if (const auto own = settings_.hooks.find("given-up"); own != settings_.hooks.end())
      run_hook("hooks: given-up", own->second, options_, facts(), {});
  } catch (const std::exception& error) {
    log::warning("{}", error.what());
  }
}

void Conductor::readers_only() {
  try {
    step("preflight", false, [&] { return look(); });
    step("prepare", false, [&] {
      close_target(options_, *source_, *target_, stop_);
      warm(settings_, *target_, store_.load_tables(replica_));
      return std::string("the target takes no writes but pgbaton's");
    });
    step("readers", false, [&] { return readers(); });
  } catch (...) {
    readers_back();
    throw;
  }
  report_.result = fmt::format("readers on the {}", options_.reversed ? "source" : "target");
}

}  // namespace pgbaton::switchover
