#include "retention.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/size.hpp>
#include <pgbaton/state/retention.hpp>

#include <set>

namespace pgbaton::stream {
namespace {

// Looking through a ledger costs a scan of it, which is small as long as this is done often.
constexpr std::chrono::seconds kExpireEvery{10};
// Short transactions: the applier may wait for one of these rows.
constexpr int kRowsAtOnce = 5000;

std::chrono::duration<double> seconds(double count) {
  return std::chrono::duration<double>(count);
}

}  // namespace

void Retention::load(state::Store& store, const FlushLsn& flush_lsn) {
  take_up(store, flush_lsn);
  if (!holds_.empty() && (options_.bytes || options_.time)) refuse_undercut(flush_lsn());
}

void Retention::take_up(state::Store& store, const FlushLsn& flush_lsn) {
  holds_ = store.load_holds(replica_.name);
  std::set<QualifiedName> tables;
  for (const auto& hold : holds_) tables.insert(hold.table);
  rule_->want_only(std::move(tables));
  for (auto& hold : holds_) {
    if (hold.from_lsn) continue;
    hold.from_lsn = flush_lsn();
    store.activate_hold(replica_, hold.id, hold.from_lsn);
    log::debug("deletes of {} leave tombstones from {} on: {}", hold.table.quoted(), to_string(hold.from_lsn),
               hold.reason);
  }
}

void Retention::refuse_undercut(Lsn flush_lsn) const {
  for (const auto& hold : holds_) {
    const auto distance = flush_lsn.value - std::min(hold.from_lsn, flush_lsn).value;
    const bool too_small = options_.bytes && distance > *options_.bytes;
    const bool too_short = options_.time && seconds(hold.age_seconds) > *options_.time;
    if (!too_small && !too_short) continue;
    const auto age = std::chrono::duration_cast<Milliseconds>(seconds(hold.age_seconds));
    throw Error(ErrorKind::usage,
                fmt::format("tombstone_retention {} undercuts what is needed: {} (since {}) needs the tombstones of {} "
                            "from {} on, {} of WAL behind the source's {}",
                            too_small ? format_size(*options_.bytes) : format_duration(*options_.time), hold.reason,
                            format_duration(age), hold.table.quoted(), to_string(hold.from_lsn), format_size(distance),
                            to_string(flush_lsn)))
        .table(hold.table.quoted())
        .hint(
            "Leave tombstone_retention out (everything that is needed is kept then, and no more), or end what holds "
            "them first.");
  }
}

// A configured retention only ever keeps longer than needed.
Lsn Retention::keep_configured(Lsn below_lsn, Lsn flush_lsn) {
  if (options_.bytes)
    below_lsn = std::min(below_lsn, Lsn{flush_lsn.value - std::min<std::uint64_t>(flush_lsn.value, *options_.bytes)});
  if (options_.time) {
    samples_.push_back({Clock::now(), below_lsn});
    const auto old_enough = Clock::now() - *options_.time;
    Lsn known;
    while (samples_.size() > 1 && samples_[1].at <= old_enough) samples_.pop_front();
    if (samples_.front().at <= old_enough) known = samples_.front().below_lsn;
    below_lsn = std::min(below_lsn, known);
  }
  return below_lsn;
}

void Retention::round(state::Store& store, const FlushLsn& flush_lsn, Lsn stream_lsn) {
  take_up(store, flush_lsn);
  std::erase_if(holds_, [&](const state::Hold& hold) {
    const bool passed = hold.until_lsn && stream_lsn >= hold.until_lsn;
    if (passed) store.release_hold(hold.id);
    return passed;
  });
  if (!stream_lsn || Clock::now() < next_expiry_) return;
  next_expiry_ = Clock::now() + kExpireEvery;
  const Lsn below_lsn = keep_configured(state::oldest_held(holds_, stream_lsn), options_.bytes ? flush_lsn() : Lsn{});
  if (below_lsn <= expired_lsn_) return;
  const auto expiry = store.expire(replica_, tables_, below_lsn, kRowsAtOnce);
  if (expiry.more)
    next_expiry_ = Clock::now();
  else
    expired_lsn_ = expiry.expired_lsn;
}

}  // namespace pgbaton::stream
