#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "copy_report.hpp"
#include "json.hpp"
#include "monitor_render.hpp"

namespace pgbaton::app {

namespace {

Json copy_document(const Seen& seen) {
  if (!seen.copy) return nullptr;
  const auto& copy = *seen.copy;
  Json tables = Json::array();
  for (const auto& table : copy.in_flight)
    tables.push_back({{"name", table.name},
                      {"indexing", table.indexing},
                      {"bytes", table.bytes},
                      {"bytes_total", table.bytes_total},
                      {"seconds", table.seconds}});
  return {{"running", copy.running},
          {"step", step_name(copy.step)},
          {"tables_done", copy.tables_done},
          {"tables_indexed", copy.tables_indexed},
          {"tables_total", copy.tables_total},
          {"rows", copy.rows},
          {"bytes", copy.pace.size_copied},
          {"bytes_total", copy.bytes_total},
          {"share", copy.pace.share},
          {"bytes_per_second", copy.pace.bytes_per_second},
          {"rows_per_second", copy.pace.rows_per_second},
          {"seconds_left", known_or_null(copy.pace.seconds_left)},
          {"in_flight", tables}};
}

Json histogram_document(const HistogramCounts& counts) {
  return {{"bounds", counts.bounds}, {"at_or_below", counts.at_or_below}, {"total", counts.total}, {"sum", counts.sum}};
}

Json stream_document(const Seen& seen) {
  if (!seen.stream) return nullptr;
  const auto& stream = *seen.stream;
  return {{"running", stream.running},
          {"connected", stream.status.connected},
          {"reconnects", stream.status.reconnects},
          {"transactions", stream.status.transactions},
          {"changes", stream.status.changes},
          {"transactions_per_second", stream.transactions_per_second},
          {"changes_per_second", stream.changes_per_second},
          {"queue_bytes", stream.status.queue_bytes},
          {"queue_limit_bytes", seen.memory_bytes},
          {"delay", histogram_document(stream.measures.delay_seconds)},
          {"batch", histogram_document(stream.measures.batch_changes)}};
}

Json events_document(const Seen& seen) {
  Json list = Json::array();
  if (!seen.report) return list;
  for (const auto& event : seen.report->events)
    list.push_back({{"at", event.at}, {"event", event.kind}, {"detail", parsed_or_null(event.detail)}});
  return list;
}

Json history_document(const History& history, double after) {
  Json points = Json::array();
  for (const auto& point : history.points()) {
    if (point.at <= after) continue;
    Json row = Json::array({point.at});
    for (const auto& value : point.values) row.push_back(value ? Json(*value) : Json(nullptr));
    points.push_back(std::move(row));
  }
  Json columns = Json::array({"at"});
  for (const auto column : kHistoryColumns) columns.push_back(column);
  return {{"seconds", history.seconds()}, {"columns", columns}, {"points", points}};
}

Json course_document(const LiveCourse& course) {
  const auto now = Clock::now();
  Json steps = Json::array(), facts = Json::object();
  for (const auto& step : course.look.steps)
    steps.push_back({{"name", step.name},
                     {"running", course.running && !step.ended},
                     {"failed", !course.running && !step.ended},
                     {"seconds", std::chrono::duration<double>(step.ended.value_or(now) - step.begun).count()},
                     {"note", text_or_null(step.note)}});
  for (const auto& [name, value] : course.look.facts) facts[name] = text_or_null(value);
  const auto& pause = course.look.pause;
  return {{"running", course.running},
          {"steps", steps},
          {"pausing", course.look.pausing},
          {"pause_seconds", pause ? Json(static_cast<double>(pause->count()) / 1000) : Json(nullptr)},
          {"facts", facts}};
}

Json ending_document(const Ending& ending) {
  return {
      {"exit_code", ending.exit_code}, {"message", text_or_null(ending.message)}, {"hint", text_or_null(ending.hint)}};
}

// Why there is no document of `status`.
std::string no_status(const Seen& seen) {
  if (seen.command == "rebuild" && !seen.looking)
    return "the new generation has no database yet, or is being swapped in";
  if (!seen.looking) return "the replica is left behind by the switchover";
  if (!seen.status_json) return "the target was not asked yet";
  return fmt::format("no server has answered for {:.0f} s", seen.now - seen.report_at);
}

}  // namespace

std::string status_document(const Seen& seen) {
  const bool known = seen.looking && seen.status_json && !seen.overdue();
  auto text = known ? *seen.status_json : dump({{"error", {{"message", no_status(seen)}, {"hint", ""}}}});
  if (seen.course) {
    text.erase(text.find_last_not_of('\n', text.rfind('}') - 1) + 1);
    text += ",\n  \"course\": " + dump(course_document(*seen.course), -1) + "\n}";
  }
  return text + "\n";
}

std::string live_json(const Seen& seen, const History& history, double after) {
  const bool looked = seen.report != nullptr;
  return dump({{"version", PGBATON_VERSION},
               {"command", seen.command},
               {"replica", seen.replica},
               {"now", seen.now},
               {"started_at", seen.started_at},
               {"look",
                {{"at", looked ? Json(seen.report_at) : Json(nullptr)},
                 {"failed", seen.looking && (seen.status_failed || seen.overdue())}}},
               {"copy", copy_document(seen)},
               {"stream", stream_document(seen)},
               {"course", seen.course ? course_document(*seen.course) : Json(nullptr)},
               {"ended", seen.ending ? ending_document(*seen.ending) : Json(nullptr)},
               {"events", events_document(seen)},
               {"history", history_document(history, after)}},
              -1);
}

double unix_time(const std::string& iso_utc) {
  std::tm time{};
  std::istringstream text(iso_utc);
  text >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S");
  return text ? static_cast<double>(timegm(&time)) : 0;
}

std::vector<std::pair<std::string, double>> last_verify_numbers(const state::Event& event) {
  std::vector<std::pair<std::string, double>> numbers;
  const Json detail = Json::parse(event.detail, nullptr, false);
  if (!detail.is_object()) return numbers;
  for (const auto& [name, value] : detail.items())
    if (value.is_string() && name != "cut_lsn")
      numbers.emplace_back(name, std::strtod(value.get<std::string>().c_str(), nullptr));
  return numbers;
}

}  // namespace pgbaton::app
