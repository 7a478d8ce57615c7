#include <algorithm>
#include <cmath>

#include "view.hpp"

namespace pgbaton::app {

namespace {
constexpr double kSmoothSeconds = 4;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
}  // namespace

void Rate::begin(std::int64_t value, double rate, Clock::time_point now) {
  first_ = last_ = now;
  value_ = value;
  rate_ = rate;
}

double Rate::update(std::int64_t value, Clock::time_point now) {
  if (!first_) {
    begin(value, 0, now);
    return 0;
  }
  double seconds = seconds_between(*last_, now);
  if (seconds <= 0) return rate_;
  double latest = static_cast<double>(value - value_) / seconds;
  // In the beginning the average over all: the first look must not count for ever.
  double weight = std::max(1 - std::exp(-seconds / kSmoothSeconds), seconds / seconds_between(*first_, now));
  rate_ += (latest - rate_) * std::min(weight, 1.0);
  last_ = now;
  value_ = value;
  return rate_;
}

}  // namespace pgbaton::app
