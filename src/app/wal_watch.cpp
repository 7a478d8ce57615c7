#include "wal_watch.hpp"

#include <sys/socket.h>

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/store.hpp>

#include <algorithm>

#include "layout.hpp"

namespace pgbaton::app {

namespace {

constexpr Milliseconds kInterval{1000};

}  // namespace

WalWatch::WalWatch(const Context& context, const copy::CopyProgress* progress, source::OwnSlots own, Beyond beyond)
    : context_(context),
      own_(std::move(own)),
      beyond_(beyond),
      with_context_(context.stop, [this] { stop_.request_stop(); }) {
  if (progress != nullptr) pace_.emplace(*progress);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void WalWatch::watch(const std::stop_token& stop) {
  std::unique_ptr<pg::Control> source;
  do {
    try {
      if (!source) source = pg::open_control(context_.source(), "wal");
      // A source that has stopped answering must not hold up the end of the run.
      const std::stop_callback end(stop, [socket = source->sock()] { ::shutdown(socket, SHUT_RDWR); });
      look(*source);
    } catch (const std::exception& error) {
      source.reset();
      log::debug("looking at the WAL that slots hold: {}", error.what());
    }
  } while (sleep_for(kInterval, stop));
}

void WalWatch::look(pg::Control& source) {
  const auto hold = source::load_wal_hold(source, own_);
  const auto now = Clock::now();
  const auto snapshot = pg::control(Side::source, "looking at snapshots",
                                    [&] { return catalog::load_held_snapshot(source, context_.names.name); });
  Held held;
  held.wal_bytes = hold.held_bytes;
  held.limit = wal_limit(static_cast<std::int64_t>(context_.options.wal_budget), hold.server_limit_bytes);
  held.written_per_second = written_.update(static_cast<std::int64_t>(hold.flush_lsn.value), now);
  written_per_second_ = static_cast<std::int64_t>(held.written_per_second);
  if (pace_) held.copy_seconds_left = pace_->look(now).seconds_left;
  if (snapshot) held.snapshot_seconds = snapshot->age_seconds;
  held.xmin_age = std::max(hold.xmin_age, snapshot ? snapshot->age_transactions : 0);
  held.xmin_limit = hold.freeze_max_age;
  for (const auto& notice : budget_.judge(held)) tell(notice);
  const auto& options = context_.options;
  if (options.wal_budget == 0 || options.wal_policy == "warn") return;
  if (hold.held_bytes <= static_cast<std::int64_t>(options.wal_budget)) return;
  // Held until the slots are gone: the run, which fails without them, waits for that before it says why.
  const std::lock_guard lock(mutex_);
  if (!exceeded_) exceeded_ = hold;
  stop_.request_stop();
  // Not when the run has ended: what it waits for may be what holds the WAL.
  if (drops()) drop_slots(source);
}

void WalWatch::drop_slots(pg::Control& source) {
  for (const auto& slot : source::load_wal_hold(source, own_).slots)
    if (source::drop_slot(source, slot.name, true)) dropped_ += (dropped_.empty() ? "" : ", ") + slot.name;
}

// A target that is away is what makes WAL pile up: the watch goes on.
void WalWatch::tell(const WalNotice& notice) {
  log::warning("{}", notice.text);
  try {
    auto target = pg::open_control(context_.target(), "wal");
    state::Store store(*target);
    if (store.installed()) store.add_event(context_.names.name, "wal_budget", notice.event_detail);
  } catch (const std::exception& error) {
    log::debug("recording a warning of the WAL budget: {}", error.what());
  }
}

void WalWatch::refuse_if_exceeded() {
  const std::lock_guard lock(mutex_);
  if (!exceeded_) return;
  const auto text =
      fmt::format("the replica's slots held {} of WAL on the source, more than --wal-budget {}",
                  size_text(exceeded_->held_bytes), size_text(static_cast<std::int64_t>(context_.options.wal_budget)));
  if (!drops())
    throw Error(ErrorKind::failed, text + ": stopped")
        .side(Side::source)
        .hint(beyond_ == Beyond::only_stop
                  ? "The live database is as it was. Run it again with a larger --wal-budget, or more --jobs."
                  : "Nothing is lost, and a slot that is there goes on holding WAL: run the same command with a larger "
                    "--wal-budget, or `pgbaton drop`.");
  try {
    drop_slots(*pg::open_control(context_.source(), "wal"));  // those that were made since, or could not be dropped
  } catch (const Error& error) {
    throw Error(ErrorKind::failed, fmt::format("{}; they could not be dropped: {}", text, error.message()))
        .side(Side::source)
        .hint("They go on holding WAL: run `pgbaton drop`, or drop them by hand.");
  }
  throw Error(ErrorKind::boundary_lost,
              fmt::format("{}: dropped {}", text, dropped_.empty() ? "nothing, it was gone" : dropped_))
      .side(Side::source)
      .hint(
          "Changes are lost for this replica: a new bootstrap is needed, `pgbaton clone --restart`, with more room "
          "(--wal-budget) or a faster copy (--jobs).");
}

}  // namespace pgbaton::app
