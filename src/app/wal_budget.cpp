#include "wal_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout.hpp"

namespace pgbaton::app {

namespace {

constexpr std::array kPercents{50, 75, 90};
// Held WAL falls in steps of segments and checkpoints: a warning is said again only after it was this far below.
constexpr int kBelow = 10;

int percent_of(std::int64_t part, std::int64_t whole) {
  if (whole <= 0 || part <= 0) return 0;
  return static_cast<int>(std::min(static_cast<double>(part) / static_cast<double>(whole) * 100, 9999.0));
}

std::string detail(std::string_view what, std::int64_t value, const Held& held) {
  return fmt::format(R"({{"{}": {}, "held_bytes": {}, "limit_bytes": {}, "limit": "{}"}})", what, value, held.wal_bytes,
                     held.limit.bytes, held.limit.name);
}

}  // namespace

WalLimit wal_limit(std::int64_t budget, std::int64_t server) {
  if (budget > 0 && (server < 0 || budget <= server)) return {budget, "--wal-budget"};
  return server < 0 ? WalLimit{} : WalLimit{server, "max_slot_wal_keep_size"};
}

std::int64_t projected_bytes(std::int64_t held, double written_per_second, double copy_seconds_left) {
  if (written_per_second < 0 || copy_seconds_left < 0) return -1;
  return held + static_cast<std::int64_t>(written_per_second * copy_seconds_left);
}

std::string wal_used_text(const Held& held) {
  const auto percent = percent_of(held.wal_bytes, held.limit.bytes);
  if (percent < kPercents.front()) return {};
  auto text = fmt::format("{} % of the WAL budget is used: {} of {} ({}) are held on the source", percent,
                          size_text(held.wal_bytes), size_text(held.limit.bytes), held.limit.name);
  if (held.snapshot_seconds >= 0)
    text += fmt::format(", and a snapshot for {}, over {} transactions", duration_text(held.snapshot_seconds),
                        count_text(held.xmin_age));
  return text;
}

std::string wal_projected_text(const Held& held) {
  const auto projected = projected_bytes(held.wal_bytes, held.written_per_second, held.copy_seconds_left);
  if (held.limit.bytes <= 0 || projected <= held.limit.bytes) return {};
  return fmt::format(
      "at the present rates the copy will not be complete inside the WAL budget: it takes {} more, the source writes "
      "{}/s, so that {} would be held, and {} is {}",
      duration_text(held.copy_seconds_left), size_text(static_cast<std::int64_t>(held.written_per_second)),
      size_text(projected), held.limit.name, size_text(held.limit.bytes));
}

std::string xmin_used_text(const Held& held) {
  const auto percent = percent_of(held.xmin_age, held.xmin_limit);
  if (percent < kPercents.front()) return {};
  return fmt::format(
      "vacuum on the source is held back over {} transactions by this replica's {}, {} % of "
      "autovacuum_freeze_max_age: old row versions pile up until {}",
      count_text(held.xmin_age), held.snapshot_seconds >= 0 ? "snapshot" : "slots", percent,
      held.snapshot_seconds >= 0 ? "it is done" : "they move on");
}

bool WalBudget::Steps::rises_to(int percent) {
  while (warned_ > 0 && percent < warned_ - kBelow) {
    const auto at = std::ranges::find(kPercents, warned_);
    warned_ = at == kPercents.begin() ? 0 : *(at - 1);
  }
  int reached = 0;
  for (const int step : kPercents)
    if (percent >= step) reached = step;
  if (reached <= warned_) return false;
  warned_ = reached;
  return true;
}

std::vector<WalNotice> WalBudget::judge(const Held& held) {
  std::vector<WalNotice> notices;
  if (const auto percent = percent_of(held.wal_bytes, held.limit.bytes); wal_.rises_to(percent))
    notices.push_back({detail("percent", percent, held), wal_used_text(held)});
  const auto projected = projected_bytes(held.wal_bytes, held.written_per_second, held.copy_seconds_left);
  const auto text = wal_projected_text(held);
  if (!text.empty() && !warned_projection_) notices.push_back({detail("projected_bytes", projected, held), text});
  if (projected >= 0) warned_projection_ = !text.empty();
  if (const auto percent = percent_of(held.xmin_age, held.xmin_limit); xmin_.rises_to(percent))
    notices.push_back(
        {fmt::format(R"({{"percent": {}, "xmin_age_transactions": {}, "limit": "autovacuum_freeze_max_age"}})", percent,
                     held.xmin_age),
         xmin_used_text(held)});
  return notices;
}

}  // namespace pgbaton::app
