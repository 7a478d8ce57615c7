// The rules of alerts.yaml, judged by Prometheus' own tool on what a real run has shown.
#pragma once
#include <string>
#include <vector>

namespace pgbaton::testing {

// Of scripts/setup --test, or installed; "" when there is none.
std::string promtool();

// What `promtool check metrics` says of a text of metrics; "" nothing.
std::string lint_metrics(const std::string& text);

// A text of metrics that stays as it is for a quarter of an hour, and the alerts that fire then, in alphabetical order.
struct AlertCase {
  std::string name, metrics;
  std::vector<std::string> alerts;
};
// What `promtool test rules` says of these cases and alerts.yaml, and of the expressions of grafana.json; "" nothing.
std::string judge_alerts(const std::vector<AlertCase>& cases);
std::string judge_dashboard();

}  // namespace pgbaton::testing
