#include "render_switchover.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

std::string findings_lines(const std::vector<snapshot::Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) {
    text += fmt::format("{:<8} {}  {}\n           {}\n", to_string(finding.severity), finding.id, finding.object,
                        finding.message);
    if (!finding.remedy.empty()) text += fmt::format("           -> {}\n", finding.remedy);
  }
  return text.empty() ? text : text + "\n";
}

// The servers by their flags.
std::string who_takes_writes(const switchover::Report& report, bool reversed) {
  const std::string_view from = reversed ? "target" : "source", to = reversed ? "source" : "target";
  if (report.flipped)
    return fmt::format("the {} is open and the application works there: run the same command again to end it", to);
  if (report.source_open) return fmt::format("the {} takes writes", from);
  return fmt::format("the {} is fenced: the watchdog decides which side takes writes, or `switchover --undo`", from);
}

// "" before the first step, and between two.
std::string where_it_failed(const switchover::Report& report) {
  if (!report.failed_step.empty()) return "failed at step " + report.failed_step;
  return report.steps.empty() ? "failed before the first step" : "failed after step " + report.steps.back().name;
}

}  // namespace

std::string switchover_text(const switchover::Report& report, bool reversed) {
  auto text = findings_lines(report.findings);
  for (const auto& step : report.steps)
    text += fmt::format("{:<12}{:>10}  {}  {}\n", step.name, format_duration(step.time),
                        step.in_pause ? "writers wait" : "            ", step.note);
  if (report.dry_run && report.result == "possible")
    text += fmt::format("\nwriters would wait about {}; nothing was changed\n", format_duration(report.pause));
  else if (report.dry_run && report.result == "refused")
    text += "\na switchover would be refused; nothing was changed\n";
  else if (report.steps.empty() && !report.failure)
    text += report.result + ": nothing was changed\n";
  else if (report.failure)
    text += fmt::format("\n{}; {}\n", where_it_failed(report), who_takes_writes(report, reversed));
  else
    text += fmt::format("\n{}; writers waited {}\n", report.result, format_duration(report.pause));
  return text;
}

std::string switchover_json(const switchover::Report& report) {
  Json steps = Json::array(), findings = Json::array();
  for (const auto& step : report.steps)
    steps.push_back({{"name", step.name}, {"ms", step.time.count()}, {"in_pause", step.in_pause}, {"note", step.note}});
  for (const auto& finding : report.findings)
    findings.push_back({{"id", finding.id},
                        {"severity", to_string(finding.severity)},
                        {"object", finding.object},
                        {"message", finding.message},
                        {"remedy", finding.remedy}});
  Json document{{"dry_run", report.dry_run},
                {"result", report.result},
                {"failed_step", text_or_null(report.failed_step)},
                {"flipped", report.flipped},
                {"pause_ms", report.pause.count()},
                {"barrier_lsn", lsn_or_null(report.barrier_lsn)},
                {"steps", steps},
                {"reverse", text_or_null(report.reverse)},
                {"findings", findings}};
  if (report.failure) document.update(Json::parse(error_json(*report.failure)));
  return dump(document);
}

}  // namespace pgbaton::app
