// Results for people.
#include <fmt/format.h>
#include <pgbaton/base/size.hpp>

#include <algorithm>

#include "render.hpp"

namespace pgbaton::app {

namespace {

// "slot        pgbaton, active …": one line of a report.
std::string line(std::string_view label, std::string_view text) {
  return fmt::format("{:<12}{}\n", label, text);
}

std::string size_text(std::int64_t bytes) {
  return format_size(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

std::string lsn_text(Lsn lsn) {
  return lsn ? to_string(lsn) : "-";
}

std::string writer_line(const StatusReport& report) {
  if (!report.writer_holds) return line("writer", "none runs");
  const auto& replica = *report.replica;
  return line("writer",
              fmt::format("host {}, pid {}, since {}", replica.writer_host, replica.writer_pid, replica.writer_since));
}

std::string slot_line(const StatusReport& report) {
  if (!report.source_problem.empty()) return line("slot", "not known: " + report.source_problem);
  if (!report.slot) return line("slot", "there is none");
  return line("slot",
              fmt::format("{}, {}, WAL {}, {} held", report.slot->name, report.slot->active ? "active" : "not active",
                          report.slot->wal_status.empty() ? "status unknown" : report.slot->wal_status,
                          size_text(report.slot->held_bytes)));
}

std::string lag_line(const StatusReport& report) {
  if (report.lag_bytes() < 0) return line("lag", "not known");
  return line("lag", fmt::format("{}, {:.1f} s", size_text(report.lag_bytes()), report.lag_seconds()));
}

std::string table_lines(const StatusReport& report) {
  if (report.tables.empty()) return "";
  std::string text = fmt::format("\n{:<40} {:<8} {:>18} {:>14} {:>10}\n", "table", "phase", "boundary", "rows", "size");
  for (const auto& table : report.tables) {
    text += fmt::format("{:<40} {:<8} {:>18} {:>14} {:>10}\n", table.name.quoted(), to_string(table.phase),
                        lsn_text(table.boundary), table.rows, size_text(table.bytes));
    if (!table.note.empty()) text += fmt::format("    {}\n", table.note);
  }
  return text;
}

std::string last_error_lines(const StatusReport& report) {
  auto error = parse_last_error(report.replica->last_error);
  if (!error) return "";
  std::string text =
      line("last error", fmt::format("{} (exit code {}, {})", error->message, error->exit_code, error->at));
  return error->hint.empty() ? text : text + line("", "HINT: " + error->hint);
}

}  // namespace

std::string status_text(const StatusReport& report) {
  if (!report.replica) {
    std::string text = line("replica", report.name) + line("phase", "none: the target knows no such replica");
    for (const auto& warning : report.warnings) text += line("WARNING", warning);
    return text;
  }
  const auto& replica = *report.replica;
  const auto& progress = report.progress;
  std::string text = line("replica", fmt::format("{} (generation {})", report.name, replica.generation));
  text += line("phase", to_string(replica.phase));
  text += writer_line(report) + slot_line(report);
  text += line("positions", fmt::format("source {}, received {}, applied {}, confirmed {}",
                                        lsn_text(report.source_flush_lsn), lsn_text(progress.received_lsn),
                                        lsn_text(progress.applied_lsn), lsn_text(progress.confirmed_lsn)));
  text += lag_line(report);
  text += line("copy", fmt::format("{} of {} tables, {} of {}", report.tables_copied(), report.tables_total(),
                                   size_text(report.bytes_done()), size_text(report.bytes_total())));
  text += line("applied", fmt::format("{} transactions, {} changes", progress.transactions, progress.changes));
  text += last_error_lines(report);
  for (const auto& warning : report.warnings) text += line("WARNING", warning);
  return text + table_lines(report);
}

std::string plan_text(const snapshot::DryRun& plan, std::string_view phase) {
  std::string text = line("replica", plan.name + (phase == "none" ? "" : fmt::format(" (exists, phase {})", phase)));
  text += line("slot", plan.slot);
  text +=
      line("publication", plan.publication + (plan.own_publication ? "" : " (exists, is verified and never dropped)"));
  if (!plan.publication_inserts.empty())
    text += line("", plan.publication_inserts + " (INSERT and TRUNCATE of tables without a usable identity)");
  text += line("schema",
               plan.schema == snapshot::SchemaMode::full ? "by pg_dump and pg_restore" : "the target's own tables");
  text += line("connections", fmt::format("{} for the copy, on each side", plan.copy_connections));
  text += fmt::format("\n{:>4} {:<44} {:>10} {:>14}  {:<7} {}\n", "", "table", "size", "rows (about)", "guard",
                      "publication");
  int number = 0;
  for (const auto& table : plan.tables) {
    auto rows = table.estimated_rows < 0 ? "unknown" : fmt::format("{:.0f}", table.estimated_rows);
    text += fmt::format("{:>4} {:<44} {:>10} {:>14}  {:<7} {}\n", table.copied ? std::to_string(++number) : "-",
                        table.name.quoted(), format_size(table.bytes), rows, state::to_string(table.guard),
                        table.publication.empty() ? "-" : table.publication);
    if (!table.note.empty()) text += fmt::format("       {}\n", table.note);
  }
  for (const auto& name : plan.left_out) text += fmt::format("   - {:<44} left out by the filter\n", name.quoted());
  return text + fmt::format("\n{} tables to copy, {}; nothing was changed\n", number, format_size(plan.bytes_total));
}

std::string run_text(const RunResult& result) {
  std::string text;
  if (const auto& clone = result.clone; clone && clone->tables > 0)
    text += fmt::format(
        "copied {} tables, {} rows, {} (schema {}, rows {}, constraints {}){}\n", clone->tables, clone->rows,
        size_text(clone->bytes), format_duration(clone->schema_time), format_duration(clone->copy_time),
        format_duration(clone->finish_time),
        clone->tables_kept > 0 ? fmt::format(", {} of them kept from an earlier run", clone->tables_kept) : "");
  if (const auto& stream = result.stream)
    text += fmt::format("applied {} transactions with {} changes up to {}\n", stream->transactions, stream->changes,
                        to_string(stream->applied_lsn));
  return text + fmt::format("replica {}: {}\n", result.name, result.result);
}

}  // namespace pgbaton::app
