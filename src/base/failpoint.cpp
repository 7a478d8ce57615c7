#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <string>
#include <string_view>
#include <thread>

namespace pgbaton {
namespace {

enum class Effect { kill, error, stop, sleep, freeze, on };

struct Point {
  Effect effect = Effect::kill;
  long sleep_ms = 0;
  long only_nth = 0;  // 0: every time
  long met = 0;
};
using Points = std::map<std::string, Point, std::less<>>;

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorKind::usage, fmt::format("PGBATON_FAILPOINTS: \"{}\" is not understood", text))
      .hint("Write name=kill|error|stop|freeze|sleep:MILLISECONDS|on, each with an optional @N, separated by commas.");
}

long number(std::string_view digits, std::string_view all) {
  long value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size() || value < 0) refuse(all);
  return value;
}

Point parse_point(std::string_view action, std::string_view all) {
  Point point;
  if (const auto at = action.rfind('@'); at != std::string_view::npos) {
    point.only_nth = number(action.substr(at + 1), all);
    action = action.substr(0, at);
  }
  if (action == "kill") {
    point.effect = Effect::kill;
  } else if (action == "error") {
    point.effect = Effect::error;
  } else if (action == "stop") {
    point.effect = Effect::stop;
  } else if (action == "freeze") {
    point.effect = Effect::freeze;
  } else if (action == "on") {
    point.effect = Effect::on;
  } else if (action.starts_with("sleep:")) {
    point.effect = Effect::sleep;
    point.sleep_ms = number(action.substr(6), all);
  } else {
    refuse(all);
  }
  return point;
}

Points parse_points(std::string_view text) {
  Points points;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const auto one = text.substr(0, comma);
    const auto equals = one.find('=');
    if (equals == std::string_view::npos) refuse(one);
    points[std::string(one.substr(0, equals))] = parse_point(one.substr(equals + 1), one);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return points;
}

// What is due at this passage. The count is per process, over all threads.
std::optional<Point> due(const char* name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static Points points = [] {
    const char* text = std::getenv("PGBATON_FAILPOINTS");
    return parse_points(text == nullptr ? "" : text);
  }();
  const auto found = points.find(std::string_view(name));
  if (found == points.end()) return std::nullopt;
  Point& point = found->second;
  ++point.met;
  if (point.only_nth != 0 && point.met != point.only_nth) return std::nullopt;
  return point;
}

}  // namespace

void failpoint(const char* name) {
  const auto point = due(name);
  if (!point) return;
  switch (point->effect) {
    case Effect::kill:
      ::kill(::getpid(), SIGKILL);
      return;
    case Effect::error:
      throw Error(ErrorKind::failed, fmt::format("failpoint {}", name)).action(Action::retry);
    case Effect::stop:
      throw Error(ErrorKind::failed, fmt::format("failpoint {}", name)).action(Action::stop);
    case Effect::freeze:
      // By this thread: one that is sent to the process may be taken by another one, and a little later.
      ::raise(SIGSTOP);
      return;
    case Effect::sleep:
      std::this_thread::sleep_for(std::chrono::milliseconds(point->sleep_ms));
      return;
    case Effect::on:
      return;
  }
}

bool failpoint_set(const char* name) {
  const auto point = due(name);
  return point && point->effect == Effect::on;
}

}  // namespace pgbaton
