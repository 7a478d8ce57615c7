#include <pgbaton/base/histogram.hpp>

#include <algorithm>

namespace pgbaton {

void Histogram::add(double value) noexcept {
  const auto place = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

HistogramCounts Histogram::counts() const {
  HistogramCounts result;
  result.bounds.assign(bounds_.begin(), bounds_.end());
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    result.total += counts_[i].load(std::memory_order_relaxed);
    result.at_or_below.push_back(result.total);
  }
  result.total += counts_[bounds_.size()].load(std::memory_order_relaxed);
  result.sum = sum_.load(std::memory_order_relaxed);
  return result;
}

}  // namespace pgbaton
