// Results as text for people and as JSON for scripts. All JSON of the tool is made in render_json.cpp.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/rebuild/rebuild.hpp>
#include <pgbaton/snapshot/check.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/snapshot/dry_run.hpp>
#include <pgbaton/verify/verify.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "status.hpp"

namespace pgbaton::app {

std::string status_text(const StatusReport& report);
std::string status_json(const StatusReport& report);

std::string findings_text(const std::vector<snapshot::Finding>& findings, bool colour);
std::string findings_json(const std::vector<snapshot::Finding>& findings);

// `phase` of a replica that exists already, else "none".
std::string plan_text(const snapshot::DryRun& plan, std::string_view phase);
std::string plan_json(const snapshot::DryRun& plan, std::string_view phase);

// What clone and follow did.
struct RunResult {
  std::string command, name, result;  // result: "copied", "caught-up", "reached", "stopped"
  std::optional<snapshot::CloneSummary> clone;
  std::optional<stream::StreamStatus> stream;
  Milliseconds stream_time{0};
};
std::string run_text(const RunResult& result);
std::string run_json(const RunResult& result);

std::string verify_text(const verify::Report& report, const std::string& name);
std::string verify_json(const verify::Report& report, const std::string& name);

std::string generations_json(const std::vector<rebuild::Listed>& generations);

// A flat document of names and texts (or lists of texts), for the small commands.
using Entry = std::pair<std::string, std::variant<std::string, std::int64_t, std::vector<std::string>>>;
std::string small_json(const std::vector<Entry>& entries);

// pgbaton.replica.last_error, and back.
std::string last_error_json(const Error& error);
struct LastError {
  int exit_code = 1;
  std::string kind, message, hint, at;
};
std::optional<LastError> parse_last_error(const std::string& json);
// {"error": {…}}: the document of a command that failed.
std::string error_json(const Error& error);

std::string event_json(std::string_view at, std::string_view replica, std::string_view kind, std::string_view detail);

// What drop and finish removed and what they had to leave, to stdout.
struct RemovalResult {
  snapshot::RemovalReport report;
  std::vector<std::string> not_carried;   // of finish: tables of the source that the replica did not have
  std::vector<std::string> not_streamed;  // of finish: what may differ all the same, a sentence each
  Lsn complete_lsn;  // of finish: everything that the source committed below it is on the target; 0: not known
};
void print_removal(const Context& context, const RemovalResult& result);
// not_streamed.cpp
std::vector<std::string> not_streamed(pg::Control& source, pg::Control& target,
                                      const std::vector<state::TableState>& tables);

std::string now_utc();  // ISO 8601, whole seconds
// The same moment for people: "2026-01-31T12:00:00Z" becomes "2026-01-31 12:00:00 UTC".
std::string time_text(std::string_view iso_utc);

}  // namespace pgbaton::app
