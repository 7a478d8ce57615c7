// The rules of the text format (0.0.4) and of naming, as Prometheus documents them.
#include <cmath>
#include <regex>
#include <sstream>

#include "http.hpp"

namespace pgbaton::testing {
namespace {

const std::regex kName("[a-z][a-z0-9_]*"), kSample(R"re(^([a-z_0-9]+)(\{(.*)\})? ([-+0-9.e]+|NaN|[+-]Inf)$)re");
const std::regex kLabels(R"re(([a-z_]+="([^"\\\n]|\\["\\n])*")(,[a-z_]+="([^"\\\n]|\\["\\n])*")*)re");
// Base units only: seconds and bytes.
const std::regex kOtherUnits(
    "(^|_)(milliseconds?|ms|minutes|hours|microseconds|kb|mb|kilobytes|megabytes|percent|lsn)$");

class Lint {
 public:
  explicit Lint(Metrics& metrics) : metrics_(metrics) {}

  void line(const std::string& text) {
    if (text.starts_with("# HELP "))
      help(text);
    else if (text.starts_with("# TYPE "))
      type(text);
    else
      sample(text);
  }
  void end() { end_family(); }

 private:
  void problem(const std::string& text) { metrics_.problems.push_back(text); }

  void help(const std::string& text) {
    end_family();
    std::istringstream words(text.substr(7));
    words >> family_;
    std::string rest;
    std::getline(words, rest);
    if (rest.size() < 10) problem(family_ + ": HELP says nothing");
    if (metrics_.types.contains(family_)) problem(family_ + " comes twice");
    type_.clear();
    samples_ = 0;
    last_bucket_ = -1;
  }
  void type(const std::string& text) {
    std::istringstream words(text.substr(7));
    std::string name;
    words >> name >> type_;
    if (name != family_) problem(name + ": TYPE without HELP before it");
    metrics_.types[name] = type_;
    if (!std::regex_match(name, kName)) problem(name + " is no good name");
    if (std::regex_search(name, kOtherUnits)) problem(name + ": seconds and bytes are the units");
    if (type_ == "counter" && !name.ends_with("_total")) problem(name + ": a counter ends in _total");
    if (type_ != "counter" && name.ends_with("_total")) problem(name + ": only counters end in _total");
    if (type_ != "counter" && type_ != "gauge" && type_ != "histogram") problem(name + ": unknown type " + type_);
    for (const auto* suffix : {"_count", "_sum", "_bucket"})
      if (name.ends_with(suffix)) problem(name + ": the suffix is one of histograms");
    if (!name.starts_with("pgbaton_") && !name.starts_with("process_")) problem(name + ": foreign prefix");
  }
  void sample(const std::string& text) {
    std::smatch parts;
    if (!std::regex_match(text, parts, kSample)) return problem("not a sample: " + text);
    const std::string name = parts[1], labels = parts[3], key = text.substr(0, text.rfind(' '));
    if (!labels.empty() && !std::regex_match(labels, kLabels)) problem("labels: " + text);
    const bool of_histogram = type_ == "histogram" && name.starts_with(family_);
    if (name != family_ && !of_histogram) problem(name + " stands under " + family_);
    const double value = std::strtod(parts[4].str().c_str(), nullptr);
    if (!metrics_.values.emplace(key, value).second) problem("twice: " + key);
    if (std::isnan(value)) problem("NaN: " + key);
    if (type_ == "counter" && value < 0) problem("negative counter: " + key);
    ++samples_;
    if (!of_histogram) return;
    if (name == family_ + "_bucket") {
      if (value < last_bucket_) problem(key + ": buckets are cumulative");
      last_bucket_ = value;
      infinite_ = labels.find("le=\"+Inf\"") != std::string::npos;
    }
    if (name == family_ + "_count" && (value != last_bucket_ || !infinite_))
      problem(key + ": is not the bucket +Inf, or that is not the last one");
  }
  void end_family() {
    if (!family_.empty() && samples_ == 0) problem(family_ + " has no sample");
    if (!family_.empty() && type_.empty()) problem(family_ + " has no TYPE");
    if (type_ == "histogram") {
      const auto labels = metrics_.values.lower_bound(family_ + "_sum");
      if (labels == metrics_.values.end() || !labels->first.starts_with(family_ + "_sum"))
        problem(family_ + " has no _sum");
    }
  }

  Metrics& metrics_;
  std::string family_, type_;
  int samples_ = 0;
  double last_bucket_ = -1;
  bool infinite_ = false;
};

}  // namespace

Metrics parse_metrics(const std::string& text) {
  Metrics metrics;
  Lint lint(metrics);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) lint.line(line);
  lint.end();
  if (!text.ends_with('\n')) metrics.problems.push_back("the last line has no end");
  return metrics;
}

}  // namespace pgbaton::testing
