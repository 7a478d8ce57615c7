#include "history.hpp"

#include <algorithm>

namespace pgbaton::app {

namespace {

// What a person must not miss is the worst of a stretch of time; a rate is an average.
constexpr std::array<bool, 9> kIsRate = {false, true, false, false, false, false, true, true, true};

// `weight`: how many samples `a` stands for, beside `b`.
HistoryPoint merged(const HistoryPoint& a, int weight_a, const HistoryPoint& b, int weight_b) {
  HistoryPoint result;
  result.at = b.at;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const auto &x = a.values[i], &y = b.values[i];
    if (!x || !y)
      result.values[i] = x ? x : y;
    else if (kIsRate[i])
      result.values[i] = (*x * weight_a + *y * weight_b) / (weight_a + weight_b);
    else
      result.values[i] = std::max(*x, *y);
  }
  return result;
}

}  // namespace

void History::add(const HistoryPoint& sample) {
  pending_ = pending_ ? merged(*pending_, pending_samples_, sample, 1) : sample;
  if (++pending_samples_ < samples_per_point_) return;
  points_.push_back(*pending_);
  pending_.reset();
  pending_samples_ = 0;
  if (points_.size() < kMostPoints) return;
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2) points_[i / 2] = merged(points_[i], 1, points_[i + 1], 1);
  points_.resize(points_.size() / 2);
  samples_per_point_ *= 2;
  seconds_ *= 2;
}

}  // namespace pgbaton::app
