// The values that documents share, and what verify found, as JSON.
#include <nlohmann/json.hpp>

#include "json.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

Json difference_document(const verify::Difference& difference) {
  Json key = Json::object();
  for (std::size_t i = 0; i < difference.key.size(); ++i)
    key[difference.key_columns[i]] = difference.key[i] ? Json(*difference.key[i]) : Json(nullptr);
  Json document = {{"schema", difference.table.schema},
                   {"table", difference.table.name},
                   {"key", difference.keyless ? Json(nullptr) : key},
                   {"kind", to_string(difference.kind)},
                   {"columns", difference.columns}};
  if (difference.keyless) {
    document["row"] = key;
    document["count"] = difference.count;
  }
  return document;
}

}  // namespace

std::string dump(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json lsn_or_null(Lsn lsn) {
  return lsn ? Json(to_string(lsn)) : Json(nullptr);
}
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
Json known_or_null(std::int64_t number) {
  return number < 0 ? Json(nullptr) : Json(number);
}
Json known_or_null(double number) {
  return number < 0 ? Json(nullptr) : Json(number);
}
Json parsed_or_null(const std::string& text) {
  Json document = Json::parse(text, nullptr, false);
  return document.is_discarded() ? Json(nullptr) : document;
}

Json doubts_document(const std::vector<state::Doubt>& doubts) {
  Json list = Json::array();
  for (const auto& doubt : doubts)
    list.push_back({{"schema", doubt.table.schema},
                    {"table", doubt.table.name},
                    {"kind", state::to_string(doubt.kind)},
                    {"reason", doubt.reason},
                    {"remedy", doubt.remedy},
                    {"at", text_or_null(doubt.at)}});
  return list;
}

std::string verify_json(const verify::Report& report, const std::string& name) {
  Json tables = Json::array(), differences = Json::array(), left_out = Json::array(), failed = Json::array();
  for (const auto& table : report.tables)
    tables.push_back({{"schema", table.name.schema},
                      {"table", table.name.name},
                      {"cut_lsn", to_string(table.cut_lsn)},
                      {"source_rows", table.source_rows},
                      {"target_rows", table.target_rows},
                      {"bytes", table.bytes},
                      {"differences", table.differences},
                      {"ms", table.time.count()}});
  for (const auto& difference : report.differences) differences.push_back(difference_document(difference));
  for (const auto& table : report.not_compared)
    left_out.push_back({{"schema", table.name.schema}, {"table", table.name.name}, {"reason", table.reason}});
  for (const auto& error : report.not_repaired)
    failed.push_back({{"table", error.table()},
                      {"key", error.key()},
                      {"message", error.message()},
                      {"hint", error.hint()},
                      {"exit_code", exit_code(error.kind())}});
  return dump({{"name", name},
               {"cut_lsn", lsn_or_null(report.cut_lsn)},
               {"tables_compared", report.tables.size()},
               {"rows_compared", report.rows()},
               {"differences_total", report.differences_total},
               {"differences", differences},
               {"repaired", report.repaired},
               {"remaining", report.remaining},
               {"not_repaired", failed},
               {"pause_ms", report.longest_pause.count()},
               {"cuts", report.cuts},
               {"ms", report.time.count()},
               {"tables", tables},
               {"not_compared", left_out},
               {"doubts", doubts_document(report.doubts)}});
}

}  // namespace pgbaton::app
