// JSON on the way out and in. Texts may come from a server in another encoding:
// invalid UTF-8 is replaced, never an exception while an error is being reported.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pgbaton/state/store.hpp>

#include <chrono>
#include <nlohmann/json.hpp>

#include "json.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

Json error_document(const Error& error) {
  return {{"kind", to_string(error.kind())},
          {"exit_code", exit_code(error.kind())},
          {"message", error.describe()},
          {"hint", error.hint()},
          {"at", now_utc()}};
}

Json history_break_document(const StatusReport& report) {
  if (!report.replica || !report.replica->history_break) return nullptr;
  const auto& found = *report.replica->history_break;
  return {{"message", found.message}, {"hint", found.hint}, {"at", found.at}};
}

Json slot_document(const StatusReport& report) {
  const auto& slot = report.slot;
  if (!slot) return nullptr;
  return {{"name", slot->name},
          {"active", slot->active},
          {"wal_status", text_or_null(slot->wal_status)},
          {"invalidation_reason", text_or_null(slot->invalidation_reason)},
          {"failover", slot->failover},
          {"restart_lsn", lsn_or_null(slot->restart_lsn)},
          {"confirmed_flush_lsn", lsn_or_null(slot->confirmed_flush_lsn)},
          {"wal_held_bytes", slot->held_bytes},
          {"wal_safe_bytes", known_or_null(slot->safe_bytes)}};
}

Json writer_document(const StatusReport& report) {
  if (!report.writer_holds || !report.replica) return nullptr;
  return {{"host", report.replica->writer_host},
          {"pid", report.replica->writer_pid},
          {"since", report.replica->writer_since}};
}

Json resync_document(const StatusReport& report) {
  if (report.tables_detached == 0 && !report.resync_runs && !report.resync_slot) return nullptr;
  return {{"tables", report.tables_detached},
          {"running", report.resync_runs},
          {"wal_held_bytes", report.resync_slot ? Json(report.resync_slot->held_bytes) : Json(nullptr)}};
}

Json parts_document(const StatusReport& report, const QualifiedName& table) {
  const auto parts = report.parts.find(table);
  if (parts == report.parts.end()) return nullptr;
  return {{"done", parts->second.done}, {"total", parts->second.total}};
}

Json tables_document(const StatusReport& report) {
  Json tables = Json::array();
  for (const auto& table : report.tables)
    tables.push_back({{"schema", table.name.schema},
                      {"name", table.name.name},
                      {"phase", phase_word(table)},
                      {"boundary", lsn_or_null(table.boundary)},
                      {"rows", table.rows},
                      {"bytes", table.bytes},
                      {"parts", parts_document(report, table.name)},
                      {"guard", to_string(table.guard)},
                      {"inserts_only", table.inserts_only},
                      {"missing_rows", table.missing_rows},
                      {"note", text_or_null(table.note)}});
  return tables;
}

Json guards_document(const StatusReport& report) {
  Json ledgers = Json::array(), holds = Json::array();
  for (const auto& ledger : report.guards.ledgers)
    ledgers.push_back({{"schema", ledger.table.schema},
                       {"name", ledger.table.name},
                       {"entries", ledger.entries},
                       {"bytes", ledger.bytes}});
  for (const auto& hold : report.holds)
    holds.push_back({{"schema", hold.table.schema},
                     {"name", hold.table.name},
                     {"from", lsn_or_null(hold.from_lsn)},
                     {"until", lsn_or_null(hold.until_lsn)},
                     {"reason", hold.reason},
                     {"age_seconds", hold.age_seconds}});
  return {{"oldest_deliverable", lsn_or_null(report.oldest_deliverable_lsn())},
          {"expired", lsn_or_null(report.guards.expired_lsn)},
          {"tombstones", {{"rows", report.guards.tombstones}, {"bytes", report.guards.tombstone_bytes}}},
          {"ledgers", ledgers},
          {"holds", holds}};
}

Json readiness_document(const StatusReport& report) {
  if (!report.replica) return nullptr;
  const auto& replica = *report.replica;
  const auto& seen = replica.readiness;
  return {
      {"reached", readiness_name(replica.phase)},
      {"generation", replica.generation},
      {"copied_at", text_or_null(seen.copied_at)},
      {"indexed_at", text_or_null(seen.indexed_at)},
      {"ready_at", text_or_null(seen.ready_at)},
      {"goal_lsn", lsn_or_null(seen.goal_lsn)},
      {"ready_lsn", lsn_or_null(seen.ready_lsn)},
      {"lag_limit_bytes", seen.lag_limit_bytes > 0 ? Json(seen.lag_limit_bytes) : Json(nullptr)},
      {"missing", text_or_null(missing_for_ready(replica, report.progress.applied_lsn, report.writer, report.doubts))}};
}

Json lag_document(const StatusReport& report) {
  const Json stream{{"bytes", known_or_null(report.lag_bytes())},
                    {"seconds", known_or_null(report.lag_seconds())},
                    {"seconds_to_catch_up", known_or_null(report.seconds_to_catch_up())}};
  return {
      {"bytes", stream["bytes"]},
      {"seconds", stream["seconds"]},
      {"stream", stream},
      {"copy",
       {{"bytes", known_or_null(report.copy_left_bytes())}, {"seconds", known_or_null(report.copy_left_seconds())}}}};
}

Json rates_document(const StatusReport& report) {
  Json rates = Json::object();
  for (const char* name : {"copy_bytes_per_second", "copy_rows_per_second", "transactions_per_second",
                           "changes_per_second", "applied_bytes_per_second", "source_bytes_per_second"})
    rates[name] = known_or_null(report.reported(name));
  return rates;
}

Json wal_document(const StatusReport& report) {
  if (!report.wal) return nullptr;
  Json slots = Json::array();
  for (const auto& slot : report.wal->slots)
    slots.push_back({{"name", slot.name},
                     {"temporary", slot.temporary},
                     {"active", slot.active},
                     {"wal_status", text_or_null(slot.wal_status)},
                     {"held_bytes", slot.held_bytes},
                     {"xmin_age_transactions", slot.xmin_age}});
  const auto held = report.held();
  const auto limit = held.limit.bytes;
  const auto projected = projected_bytes(held.wal_bytes, held.written_per_second, held.copy_seconds_left);
  return {{"held_bytes", held.wal_bytes},
          {"limit_bytes", known_or_null(limit)},
          {"limit", text_or_null(std::string(held.limit.name))},
          {"used_percent", limit > 0 ? Json(held.wal_bytes * 100 / limit) : Json(nullptr)},
          {"projected_bytes", known_or_null(projected)},
          {"xmin_age_transactions", held.xmin_age},
          {"xmin_limit_transactions", held.xmin_limit},
          {"slots", slots}};
}

Json snapshot_document(const StatusReport& report) {
  const auto& held = report.snapshot;
  if (!held) return nullptr;
  return {{"pid", held->pid},
          {"role", held->role},
          {"age_seconds", held->age_seconds},
          {"age_transactions", held->age_transactions}};
}

Json waiting_document(const StatusReport& report) {
  Json list = Json::array();
  for (const auto& waiting : report.waiting)
    list.push_back({{"pid", waiting.pid},
                    {"user", waiting.user},
                    {"database", waiting.database},
                    {"application_name", waiting.application_name},
                    {"query", waiting.query},
                    {"table", text_or_null(waiting.table)},
                    {"mode", text_or_null(waiting.mode)},
                    {"behind", waiting.role},
                    {"seconds", known_or_null(waiting.seconds)}});
  return list;
}

Json fences_document(const StatusReport& report) {
  Json list = Json::array();
  for (const auto& fence : report.fences)
    list.push_back({{"side", to_string(fence.side)},
                    {"standing", to_string(fence.standing)},
                    {"attempt", fence.attempt > 0 ? Json(fence.attempt) : Json(nullptr)},
                    {"message", fence.message},
                    {"remedy", text_or_null(fence.remedy)}});
  return list;
}

Json troubles_document(const StatusReport& report) {
  Json list = Json::array();
  for (const auto& event : report.troubles)
    list.push_back({{"at", event.at}, {"event", event.kind}, {"detail", parsed_or_null(event.detail)}});
  return list;
}

}  // namespace

std::string status_json(const StatusReport& report) {
  const auto& replica = report.replica;
  const auto& progress = report.progress;
  Json document = {
      {"name", report.name},
      {"phase", to_string(replica ? replica->phase : state::Phase::none)},
      {"ready", replica && replica->phase == state::Phase::ready},
      {"readiness", readiness_document(report)},
      {"direction", replica ? Json(replica->direction) : Json(nullptr)},
      {"generation", replica ? Json(replica->generation) : Json(nullptr)},
      {"writer", writer_document(report)},
      {"slot", slot_document(report)},
      {"wal", wal_document(report)},
      {"resync", resync_document(report)},
      {"lsn",
       {{"source_flush", lsn_or_null(report.source_flush_lsn)},
        {"received", lsn_or_null(progress.received_lsn)},
        {"applied", lsn_or_null(progress.applied_lsn)},
        {"durable", lsn_or_null(progress.applied_lsn)},  // applied and durable are one: progress commits with the rows
        {"confirmed", lsn_or_null(progress.confirmed_lsn)},
        {"consistent_point", replica ? lsn_or_null(replica->consistent_point) : Json(nullptr)},
        {"largest_boundary", lsn_or_null(report.largest_boundary())}}},
      {"lag", lag_document(report)},
      {"rates", rates_document(report)},
      {"snapshot", snapshot_document(report)},
      {"copy",
       {{"tables_done", report.tables_copied()},
        {"tables_total", report.tables_total()},
        {"bytes_done", report.bytes_done()},
        {"bytes_total", report.bytes_total()}}},
      {"applied", {{"transactions", progress.transactions}, {"changes", progress.changes}}},
      {"guards", replica ? guards_document(report) : Json(nullptr)},
      {"tables", tables_document(report)},
      {"last_error", replica ? parsed_or_null(replica->last_error) : Json(nullptr)},
      {"history_break", history_break_document(report)},
      {"recent", troubles_document(report)},
      {"waiting", waiting_document(report)},
      {"fences", fences_document(report)},
      {"readers_on_target", replica ? Json(report.readers_on_target) : Json(nullptr)},
      {"doubts", doubts_document(report.doubts)},
      {"source_problem", text_or_null(report.source_problem)},
      {"warnings", report.warnings}};
  return dump(document);
}

std::string findings_json(const std::vector<snapshot::Finding>& findings) {
  Json list = Json::array();
  for (const auto& finding : findings)
    list.push_back({{"id", finding.id},
                    {"severity", snapshot::to_string(finding.severity)},
                    {"object", finding.object},
                    {"message", finding.message},
                    {"remedy", finding.remedy}});
  return dump({{"findings", list}});
}

std::string plan_json(const snapshot::DryRun& plan, std::string_view phase) {
  Json tables = Json::array();
  for (const auto& table : plan.tables)
    tables.push_back({{"schema", table.name.schema},
                      {"name", table.name.name},
                      {"bytes", table.bytes},
                      {"estimated_rows", known_or_null(table.estimated_rows)},
                      {"parts", table.parts},
                      {"copied", table.copied},
                      {"guard", state::to_string(table.guard)},
                      {"guard_reason", text_or_null(table.guard_reason)},
                      {"publication", text_or_null(table.publication)},
                      {"note", text_or_null(table.note)}});
  Json left_out = Json::array();
  for (const auto& name : plan.left_out) left_out.push_back(name.quoted());
  return dump({{"dry_run", true},
               {"name", plan.name},
               {"phase", phase},
               {"slot", plan.slot},
               {"publication", plan.publication},
               {"publication_inserts", text_or_null(plan.publication_inserts)},
               {"schema", plan.schema == snapshot::SchemaMode::full ? "full" : "none"},
               {"connections", {{"source", plan.source_connections}, {"target", plan.target_connections}}},
               {"bytes_total", plan.bytes_total},
               {"estimate",
                {{"copy_ms", plan.estimate.copy_time.count()},
                 {"index_ms", plan.estimate.index_time.count()},
                 {"index_bytes", plan.estimate.index_bytes},
                 {"target_wal_bytes", plan.estimate.target_wal_bytes},
                 {"source_wal_bytes_per_second", plan.estimate.source_wal_per_second},
                 {"slot_wal_bytes", plan.estimate.slot_wal_bytes}}},
               {"tables", tables},
               {"left_out", left_out}});
}

std::string run_json(const RunResult& result) {
  Json document = {{"command", result.command}, {"name", result.name}, {"result", result.result}};
  if (const auto& clone = result.clone)
    document["copy"] = {{"tables", clone->tables},
                        {"tables_kept", clone->tables_kept},
                        {"tables_skipped", clone->tables_skipped},
                        {"rows", clone->rows},
                        {"bytes", clone->bytes},
                        {"boundaries", clone->boundaries},
                        {"consistent_point", lsn_or_null(clone->consistent_point)},
                        {"slot_ms", clone->slot_time.count()},
                        {"schema_ms", clone->schema_time.count()},
                        {"copy_ms", clone->copy_time.count()},
                        {"finish_ms", clone->finish_time.count()}};
  if (const auto& stream = result.stream)
    document["stream"] = {{"applied", lsn_or_null(stream->applied_lsn)},
                          {"transactions", stream->transactions},
                          {"changes", stream->changes},
                          {"reconnects", stream->reconnects},
                          {"stream_ms", result.stream_time.count()}};
  return dump(document);
}

std::string generations_json(const std::vector<rebuild::Listed>& generations) {
  Json list = Json::array();
  for (const auto& line : generations)
    list.push_back({{"id", line.id},
                    {"database", line.database},
                    {"state", line.state},
                    {"built", line.built},
                    {"bytes", line.bytes},
                    {"source", text_or_null(line.source)},
                    {"started_at", line.started_at},
                    {"live_at", text_or_null(line.live_at)},
                    {"age_seconds", known_or_null(line.age_seconds)},
                    {"position_lsn", lsn_or_null(line.position)}});
  return dump({{"generations", list}});
}

std::string small_json(const std::vector<Entry>& entries) {
  Json document = Json::object();
  for (const auto& [name, value] : entries) std::visit([&](const auto& v) { document[name] = v; }, value);
  return dump(document);
}

std::string last_error_json(const Error& error) {
  return dump(error_document(error), -1);
}

std::optional<LastError> parse_last_error(const std::string& text) {
  Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return std::nullopt;
  LastError error;
  error.exit_code = document.value("exit_code", 1);
  error.kind = document.value("kind", "failed");
  error.message = document.value("message", "");
  error.hint = document.value("hint", "");
  error.at = document.value("at", "");
  return error;
}

std::string error_json(const Error& error) {
  return dump({{"error", error_document(error)}});
}

std::string event_json(std::string_view at, std::string_view replica, std::string_view kind, std::string_view detail) {
  return dump({{"at", at}, {"replica", replica}, {"event", kind}, {"detail", parsed_or_null(std::string(detail))}}, -1);
}

std::string now_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

}  // namespace pgbaton::app
