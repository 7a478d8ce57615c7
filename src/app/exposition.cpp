#include "exposition.hpp"

#include <fmt/format.h>

namespace pgbaton::app {

namespace {

std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\n')
      result += "\\n";
    else if (c == '\\' || (quotes && c == '"'))
      (result += '\\') += c;
    else
      result += c;
  }
  return result;
}

}  // namespace

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, type);
}

void Exposition::line(std::string_view suffix, double value, const Labels& labels) {
  std::string list;
  for (const auto* some : {&common_, &labels})
    for (const auto& [label, text] : *some)
      list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", label, escaped(text, true));
  text_ += name_;
  text_ += suffix;
  if (!list.empty()) text_ += "{" + list + "}";
  text_ += fmt::format(" {}\n", value);
}

void Exposition::sample(double value, const Labels& labels) {
  line("", value, labels);
}

void Exposition::histogram(const HistogramCounts& counts) {
  for (std::size_t i = 0; i < counts.bounds.size(); ++i) {
    const auto bound = fmt::format("{}", counts.bounds[i]);
    line("_bucket", static_cast<double>(counts.at_or_below[i]), {{"le", bound}});
  }
  line("_bucket", static_cast<double>(counts.total), {{"le", "+Inf"}});
  line("_sum", counts.sum, {});
  line("_count", static_cast<double>(counts.total), {});
}

void Exposition::gauge(std::string_view name, std::string_view help, double value) {
  family(name, "gauge", help);
  sample(value);
}

void Exposition::counter(std::string_view name, std::string_view help, double value) {
  family(name, "counter", help);
  sample(value);
}

void Exposition::states(std::string_view name, std::string_view help, std::string_view label,
                        const std::vector<std::string_view>& all, std::string_view now) {
  family(name, "gauge", help);
  for (const auto state : all) sample(state == now ? 1 : 0, {{label, state}});
}

}  // namespace pgbaton::app
