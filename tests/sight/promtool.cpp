#include "promtool.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shell.hpp"

namespace pgbaton::testing {
namespace {

const std::string kMonitoring = PGBATON_TEST_SOURCES "/scripts/monitoring";

std::string complaint(const std::vector<std::string>& words) {
  try {
    output_of(words);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// 'name{job="pgbaton",…}', and its value at every minute.
void write_series(std::ostream& out, const std::string& line) {
  const auto blank = line.rfind(' ');
  auto series = line.substr(0, blank);
  const auto brace = series.find('{');
  const std::string origin = "job=\"pgbaton\",instance=\"here\"";
  if (brace == series.npos)
    series += "{" + origin + "}";
  else
    series.insert(brace + 1, origin + ",");
  for (std::size_t at = 0; (at = series.find('\'', at)) != series.npos; at += 2) series.insert(at, "'");
  out << "      - series: '" << series << "'\n        values: '" << std::fixed << std::stod(line.substr(blank + 1))
      << "+0x15'\n";
}

void write_case(std::ostream& out, const AlertCase& one) {
  out << "  - name: " << one.name << "\n    interval: 1m\n    input_series:\n";
  std::istringstream lines(one.metrics);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != '#') write_series(out, line);
  out << "    promql_expr_test:\n      - expr: 'count by (alertname) (ALERTS{alertstate=\"firing\"})'\n"
      << "        eval_time: 14m\n        exp_samples:\n";
  for (const auto& alert : one.alerts) out << "          - {labels: '{alertname=\"" << alert << "\"}', value: 1}\n";
}

}  // namespace

std::string promtool() {
  for (const std::string path : {PGBATON_TEST_SOURCES "/.cache/promtool", "/usr/bin/promtool"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

std::string lint_metrics(const std::string& text) {
  const auto file = make_run_directory("promtool") + "/metrics";
  std::ofstream(file) << text;
  return complaint({"sh", "-c", "exec '" + promtool() + "' check metrics <" + file});
}

std::string judge_alerts(const std::vector<AlertCase>& cases) {
  const auto file = make_run_directory("promtool") + "/cases.yaml";
  std::ofstream out(file);
  out << "rule_files: ['" << kMonitoring << "/alerts.yaml']\nevaluation_interval: 1m\ntests:\n";
  for (const auto& one : cases) write_case(out, one);
  out.close();
  return complaint({promtool(), "check", "rules", kMonitoring + "/alerts.yaml"}) +
         complaint({promtool(), "test", "rules", file});
}

// As rules that record them, for want of a tool that reads a dashboard.
std::string judge_dashboard() {
  const auto file = make_run_directory("promtool") + "/dashboard.yaml";
  std::ofstream out(file);
  out << "groups:\n  - name: dashboard\n    rules:\n";
  std::ifstream text_of_dashboard(kMonitoring + "/grafana.json");
  const auto dashboard = nlohmann::json::parse(text_of_dashboard);
  int number = 0;
  for (const auto& panel : dashboard.at("panels"))
    for (const auto& target : panel.at("targets")) {
      std::string text = target.at("expr");
      for (std::size_t at; (at = text.find("$__rate_interval")) != text.npos;) text.replace(at, 16, "5m");
      out << "      - {record: 'panel_" << ++number << "', expr: '" << text << "'}\n";
    }
  out.close();
  return number == 0 ? "no expressions" : complaint({promtool(), "check", "rules", file});
}

}  // namespace pgbaton::testing
