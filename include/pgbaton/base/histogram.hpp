// How often something took how long, or was how large: counts by fixed upper bounds, as monitoring systems want them.
// add() from any thread, without a lock; counts() is consistent enough to be shown: its total is that of its buckets.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace pgbaton {

struct HistogramCounts {
  std::vector<double> bounds;             // upper bounds, inclusive, ascending
  std::vector<std::int64_t> at_or_below;  // for each bound, cumulative
  std::int64_t total = 0;                 // with those above the last bound
  double sum = 0;
};

class Histogram {
 public:
  static constexpr std::size_t kMostBounds = 20;
  // `bounds` ascending, at most kMostBounds, in static storage.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}
  void add(double value) noexcept;
  HistogramCounts counts() const;

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<std::int64_t>, kMostBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

// A millisecond to five minutes.
inline constexpr std::array kSecondsBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,
                                              0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0, 300.0};
inline constexpr std::array kCountBounds = {1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, 1e6};

}  // namespace pgbaton
