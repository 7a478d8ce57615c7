// What `check` found, for people: the worst first, each with what to do about it.
#include <fmt/format.h>

#include <algorithm>

#include "findings.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

using snapshot::Finding;
using snapshot::Severity;

std::string_view colour_of(Severity severity) {
  switch (severity) {
    case Severity::blocker:
      return "\x1b[1;31m";
    case Severity::warning:
      return "\x1b[1;33m";
    case Severity::note:
      return "\x1b[1;36m";
  }
  return "";
}

std::string painted(std::string_view text, std::string_view colour) {
  return colour.empty() ? std::string(text) : fmt::format("{}{}\x1b[0m", colour, text);
}

std::string count_of(const std::vector<Finding>& findings, Severity severity) {
  const auto count = std::ranges::count(findings, severity, &Finding::severity);
  return fmt::format("{} {}{}", count, snapshot::to_string(severity), count == 1 ? "" : "s");
}

std::string group_text(const std::vector<Finding>& findings, Severity severity, bool colour) {
  std::string text;
  const auto paint = colour ? colour_of(severity) : std::string_view();
  for (const auto& finding : findings) {
    if (finding.severity != severity) continue;
    if (text.empty()) text = painted(count_of(findings, severity), paint) + "\n";
    text += fmt::format("  {}  {}\n      {}\n", painted(finding.id, paint), finding.object, finding.message);
    if (!finding.remedy.empty()) text += fmt::format("      -> {}\n", finding.remedy);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings, bool colour) {
  return findings_text(findings, "a clone", colour);
}

std::string findings_text(const std::vector<Finding>& findings, std::string_view what, bool colour) {
  std::string text;
  for (const auto severity : {Severity::blocker, Severity::warning, Severity::note})
    text += group_text(findings, severity, colour);
  const bool blocked = snapshot::has_blocker(findings);
  return text + fmt::format("{}, {}, {}: {} {}\n", count_of(findings, Severity::blocker),
                            count_of(findings, Severity::warning), count_of(findings, Severity::note), what,
                            blocked ? "would be refused" : "can start");
}

}  // namespace pgbaton::app
