// Numbers over the whole time of a run, in bounded memory: when it is full, pairs of neighbours become one and the
// distance between points doubles. So the last hours of a long run are as coarse as its first ones.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pgbaton::app {

// In the order of kHistoryColumns. nullopt: not known.
struct HistoryPoint {
  double at = 0;  // seconds since 1970, of its end
  std::array<std::optional<double>, 9> values;
};
inline constexpr std::array<std::string_view, 9> kHistoryColumns = {"copy_left_bytes",
                                                                    "copy_bytes_per_second",
                                                                    "lag_bytes",
                                                                    "lag_seconds",
                                                                    "wal_held_bytes",
                                                                    "wal_limit_bytes",
                                                                    "transactions_per_second",
                                                                    "changes_per_second",
                                                                    "source_bytes_per_second"};

class History {
 public:
  static constexpr std::size_t kMostPoints = 1200;
  explicit History(double seconds) : seconds_(seconds) {}
  // Of the last `seconds` that the constructor was given. Several become one point: the largest lag and what is left,
  // the mean of rates.
  void add(const HistoryPoint& sample);
  double seconds() const { return seconds_; }  // between two points, now
  const std::vector<HistoryPoint>& points() const { return points_; }

 private:
  double seconds_;
  int samples_per_point_ = 1, pending_samples_ = 0;
  std::optional<HistoryPoint> pending_;
  std::vector<HistoryPoint> points_;
};

}  // namespace pgbaton::app
