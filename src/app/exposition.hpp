// The text format of Prometheus (0.0.4): families with HELP and TYPE, their samples behind them.
#pragma once
#include <pgbaton/base/histogram.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pgbaton::app {

using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

class Exposition {
 public:
  // On every sample.
  explicit Exposition(Labels common) : common_(std::move(common)) {}

  // A family; its samples follow. `type`: gauge, counter, histogram. Names end in their unit, counters in _total.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(double value, const Labels& labels = {});
  void histogram(const HistogramCounts& counts);
  // A family with one sample.
  void gauge(std::string_view name, std::string_view help, double value);
  void counter(std::string_view name, std::string_view help, double value);
  // 1 for the value that holds, 0 for all others.
  void states(std::string_view name, std::string_view help, std::string_view label,
              const std::vector<std::string_view>& all, std::string_view now);

  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, double value, const Labels& labels);

  const Labels common_;
  std::string text_;
  std::string name_;
};

}  // namespace pgbaton::app
