#include <fmt/format.h>

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/time.hpp>
#include <random>

namespace pgbaton {
namespace {

// 0 for a unit that does not exist.
std::int64_t milliseconds_of(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit.empty() || unit == "s") return 1000;
  if (unit == "m") return 60 * 1000;
  if (unit == "h") return 60 * 60 * 1000;
  if (unit == "d") return 24 * 60 * 60 * 1000;
  return 0;
}

// Longer waits mean "for ever" anyway, and a sum with a clock's now() must not overflow.
constexpr std::int64_t kLongestMilliseconds = std::int64_t{100} * 366 * 24 * 60 * 60 * 1000;

}  // namespace

Milliseconds parse_duration(std::string_view text, std::string_view what) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::int64_t factor = milliseconds_of(unit);
  if (problem != std::errc() || number < 0 || factor == 0 || number > kLongestMilliseconds / factor) {
    throw Error(ErrorKind::usage, fmt::format("{}: \"{}\" is not a duration", what, text))
        .hint("Write a number with a unit: 500ms, 120s, 5m or 2h; a bare number is seconds.");
  }
  return Milliseconds(number * factor);
}

std::string format_duration(Milliseconds duration) {
  const auto ms = duration.count();
  if (ms < 0) return "-" + format_duration(Milliseconds(-ms));
  if (ms < 1000) return fmt::format("{} ms", ms);
  const auto seconds = ms / 1000;
  if (seconds < 60) return fmt::format("{}.{} s", seconds, ms % 1000 / 100);
  const auto minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{} m {} s", minutes, seconds % 60);
  return fmt::format("{} h {} m", minutes / 60, minutes % 60);
}

bool sleep_for(Milliseconds duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, std::min(duration, Milliseconds(kLongestMilliseconds)), [] { return false; });
  return !stop.stop_requested();
}

Milliseconds Backoff::next() {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto wait = next_;
  next_ = std::min(next_ * 2, cap_);
  return wait + Milliseconds(std::uniform_int_distribution<std::int64_t>(0, wait.count() / 4)(random));
}

}  // namespace pgbaton
