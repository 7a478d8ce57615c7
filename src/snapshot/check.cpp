#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/blockers.hpp>
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

std::string oid_array(const std::vector<catalog::Oid>& oids) {
  return fmt::format("{{{}}}", fmt::join(oids, ","));
}

std::string text_array(const std::vector<std::string>& texts) {
  std::string array = "{";
  for (const auto& text : texts) {
    array += array.size() > 1 ? ",\"" : "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

std::vector<catalog::Oid> oids_of(const TablePlan& plan) {
  std::vector<catalog::Oid> oids;
  for (const auto& job : plan.jobs)
    if (job.state.phase != state::TablePhase::skipped || job.table.kind == 'p') oids.push_back(job.table.oid);
  return oids;
}

std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  const auto shown = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed));
  auto text = fmt::format("{}", fmt::join(names.begin(), shown, ", "));
  return names.size() > kNamed ? text + fmt::format(" and {} more", names.size() - kNamed) : text;
}

namespace {

CheckSide open_side(const pg::Endpoint& endpoint) {
  CheckSide side;
  side.connection = open_read_only(endpoint);
  side.server = pg::control(endpoint.side, "reading what the server is",
                            [&] { return catalog::load_server(*side.connection, endpoint.side); });
  return side;
}

// As they are now: what Keyless::full would change is said of each.
TablePlan read_only_plan(const CheckOptions& options, CheckSide& source, pg::Control* target) {
  CloneOptions clone = options.clone;
  if (clone.keyless == Keyless::full) clone.keyless = Keyless::insert_only;
  return plan_tables(*source.connection, options.new_database ? nullptr : target, clone);
}

}  // namespace

std::vector<Finding> run_check(const CheckOptions& options, const std::vector<Finding>& known) {
  Findings findings(known);
  CheckSide source = open_side(options.clone.source);
  check_source_server(options, source, findings);
  CheckSide target;
  if (options.with_target) target = open_side(options.clone.target);
  TablePlan plan = read_only_plan(options, source, target.connection.get());
  pg::control(Side::source, "checking the source's tables", [&] {
    check_source_tables(options, source, plan, findings);
    check_source_settings(options, source, plan, findings);
    check_estimate(options, source, plan, findings);
  });
  if (options.with_target) {
    check_target(options, target, findings);
    pg::control(Side::target, "reading the target's settings",
                [&] { check_target_settings(options, target, findings); });
    check_pair(options, source, target, plan, findings);
  }
  check_members(options, source, target, findings);
  return std::move(findings).sorted();
}

bool has_blocker(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& f) { return f.severity == Severity::blocker; });
}

void require_no_blocker(const std::vector<Finding>& findings) {
  require_no_blocker(findings, "pgbaton check");
}

void require_no_blocker(const std::vector<Finding>& findings, std::string_view command) {
  std::string text, remedy;
  int count = 0;
  for (const auto& finding : findings) {
    if (finding.severity != Severity::blocker) continue;
    text += fmt::format("{}{}: {}", count == 0 ? "" : "; ", finding.object, finding.message);
    if (count++ == 0) remedy = finding.remedy;
  }
  if (count == 0) return;
  if (count > 1) remedy = fmt::format("`{}` lists what to do about each; the first: {}", command, remedy);
  throw Error(ErrorKind::preflight, text).hint(remedy);
}

}  // namespace pgbaton::snapshot
