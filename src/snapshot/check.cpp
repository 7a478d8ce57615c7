#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/check.hpp>

#include <algorithm>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::blocker:
      return "blocker";
    case Severity::warning:
      return "warning";
    case Severity::note:
      return "note";
  }
  return "note";
}

std::unique_ptr<pg::Control> open_read_only(const pg::Endpoint& endpoint) {
  auto connection = pg::open_control(endpoint, "check");
  pg::control(endpoint.side, "switching the session to read only", [&] {
    pqxx::nontransaction tx(*connection);
    tx.exec("set session characteristics as transaction read only");
  });
  return connection;
}

void Findings::blocker(std::string id, std::string object, std::string message, std::string remedy) {
  all_.push_back({std::move(id), Severity::blocker, std::move(object), std::move(message), std::move(remedy)});
}
void Findings::warning(std::string id, std::string object, std::string message, std::string remedy) {
  all_.push_back({std::move(id), Severity::warning, std::move(object), std::move(message), std::move(remedy)});
}
void Findings::note(std::string id, std::string object, std::string message) {
  all_.push_back({std::move(id), Severity::note, std::move(object), std::move(message), ""});
}
std::vector<Finding> Findings::sorted() && {
  std::ranges::stable_sort(all_, {}, &Finding::severity);
  return std::move(all_);
}

namespace {

CheckSide open_side(const pg::Endpoint& endpoint) {
  CheckSide side;
  side.connection = open_read_only(endpoint);
  side.server = pg::control(endpoint.side, "reading what the server is",
                            [&] { return catalog::load_server(*side.connection, endpoint.side); });
  return side;
}

// A check only reads; the planner would alter tables for Keyless::full.
TablePlan read_only_plan(const CheckOptions& options, CheckSide& source) {
  CloneOptions clone = options.clone;
  if (clone.keyless == Keyless::full) clone.keyless = Keyless::insert_only;
  return plan_tables(*source.connection, clone);
}

}  // namespace

std::vector<Finding> run_check(const CheckOptions& options, const std::vector<Finding>& known) {
  Findings findings(known);
  CheckSide source = open_side(options.clone.source);
  check_source_server(options, source, findings);
  TablePlan plan = read_only_plan(options, source);
  pg::control(Side::source, "checking the source's tables",
              [&] { check_source_tables(options, source, plan, findings); });
  if (options.with_target) {
    CheckSide target = open_side(options.clone.target);
    check_target(options, target, findings);
    check_pair(options, source, target, plan, findings);
  }
  return std::move(findings).sorted();
}

bool has_blocker(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& f) { return f.severity == Severity::blocker; });
}

void require_no_blocker(const std::vector<Finding>& findings) {
  std::string text, remedy;
  int count = 0;
  for (const auto& finding : findings) {
    if (finding.severity != Severity::blocker) continue;
    text += fmt::format("{}{}: {}", count == 0 ? "" : "; ", finding.object, finding.message);
    if (count++ == 0) remedy = finding.remedy;
  }
  if (count == 0) return;
  if (count > 1) remedy = "`pgbaton check` lists what to do about each; the first: " + remedy;
  throw Error(ErrorKind::preflight, text).hint(remedy);
}

}  // namespace pgbaton::snapshot
