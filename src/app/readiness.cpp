// What the state says of readiness, and what a running writer adds to it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "layout.hpp"
#include "status.hpp"

namespace pgbaton::app {

namespace {

// The writer reports every second; older than this, rates say nothing about now.
constexpr double kFreshSeconds = 10;

double number(const state::Report& report, std::string_view what) {
  const auto found = report.values.find(std::string(what));
  if (found == report.values.end() || report.age_seconds < 0 || report.age_seconds > kFreshSeconds) return -1;
  double value = -1;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

}  // namespace

std::string_view readiness_name(state::Phase phase) {
  switch (phase) {
    case state::Phase::none:
    case state::Phase::creating:
    case state::Phase::copying:
      return "none";
    case state::Phase::indexing:
      return "copied";
    case state::Phase::streaming:
      return "indexed";
    case state::Phase::ready:
      return "ready";
  }
  return "none";
}

std::string missing_for_ready(const state::Replica& replica, Lsn applied_lsn, const state::Report& writer,
                              const std::vector<state::Doubt>& doubts) {
  if (replica.phase != state::Phase::streaming) return "";
  const auto& readiness = replica.readiness;
  if (!readiness.goal_lsn) return "no stream has begun since the copy was complete";
  if (applied_lsn < readiness.goal_lsn)
    return fmt::format("applied {} of {}", to_string(applied_lsn), to_string(readiness.goal_lsn));
  for (const auto& doubt : doubts)
    if (doubt.kind == state::DoubtKind::unproven) return fmt::format("{} {}", doubt.table.quoted(), doubt.reason);
  const auto limit = size_text(readiness.lag_limit_bytes);
  const auto flush = writer.values.find("source_flush");
  const auto source_flush_lsn = flush == writer.values.end() ? std::nullopt : parse_lsn(flush->second);
  if (!source_flush_lsn || *source_flush_lsn <= applied_lsn) return fmt::format("the lag must be below {}", limit);
  return fmt::format("the lag is {} and must be below {}",
                     size_text(static_cast<std::int64_t>(source_flush_lsn->value - applied_lsn.value)), limit);
}

double StatusReport::reported(std::string_view what) const {
  return writer_holds ? number(writer, what) : -1;
}

double StatusReport::seconds_to_catch_up() const {
  const auto lag = lag_bytes();
  if (lag <= 0) return static_cast<double>(lag);
  const double applied = reported("applied_bytes_per_second"), written = reported("source_bytes_per_second");
  return applied < 0 || applied <= written ? -1 : static_cast<double>(lag) / (applied - written);
}

std::int64_t StatusReport::copy_left_bytes() const {
  if (!replica || replica->phase <= state::Phase::creating) return -1;
  if (replica->phase >= state::Phase::indexing) return 0;
  std::int64_t total = 0, left = 0;
  for (const auto& table : tables) {
    if (table.phase == state::TablePhase::skipped) continue;
    total += table.bytes_total;
    if (!is_copied(table)) left += std::max(table.bytes_total - table.bytes, std::int64_t{0});
  }
  // Tables in flight are known to the writer alone.
  const double copied = reported("copied_size");
  return copied < 0 ? left : std::clamp(total - static_cast<std::int64_t>(copied), std::int64_t{0}, left);
}

double StatusReport::copy_left_seconds() const {
  const auto left = copy_left_bytes();
  return left <= 0 ? static_cast<double>(left) : reported("copy_seconds_left");
}

}  // namespace pgbaton::app
