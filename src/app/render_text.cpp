// Results for people.
#include <fmt/format.h>

#include <algorithm>

#include "layout.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

// "slot        pgbaton, active …": one line of a report.
std::string line(std::string_view label, std::string_view text) {
  return fmt::format("{:<12}{}\n", label, text);
}

std::string lsn_text(Lsn lsn) {
  return lsn ? to_string(lsn) : "-";
}

std::string_view meaning(state::Phase phase) {
  switch (phase) {
    case state::Phase::none:
      return "there is nothing yet";
    case state::Phase::creating:
      return "slot and schema are not complete";
    case state::Phase::copying:
      return "not every row is copied";
    case state::Phase::indexing:
      return "every row is copied, indexes and constraints are not complete";
    case state::Phase::streaming:
      return "the copy is complete and has not caught up yet";
    case state::Phase::ready:
      return "the copy is complete and has caught up with the source";
  }
  return "";
}

std::string writer_line(const StatusReport& report) {
  if (!report.writer_holds) return line("writer", "none runs");
  const auto& replica = *report.replica;
  return line("writer", fmt::format("host {}, pid {}, since {}", replica.writer_host, replica.writer_pid,
                                    time_text(replica.writer_since)));
}

std::string slot_line(const StatusReport& report) {
  if (!report.source_problem.empty()) return line("slot", "not known: " + report.source_problem);
  if (!report.slot) return line("slot", "there is none");
  return line("slot",
              fmt::format("{}, {}, WAL {}, {} held", report.slot->name, report.slot->active ? "active" : "not active",
                          report.slot->wal_status.empty() ? "status unknown" : report.slot->wal_status,
                          size_text(report.slot->held_bytes)));
}

std::string resync_line(const StatusReport& report) {
  if (report.tables_detached == 0 && !report.resync_runs && !report.resync_slot) return "";
  return line("resync", fmt::format("{}, {} tables, {} of WAL held", report.resync_runs ? "running" : "not running",
                                    report.tables_detached,
                                    report.resync_slot ? size_text(report.resync_slot->held_bytes) : "nothing"));
}

std::string lag_line(const StatusReport& report) {
  if (report.lag_bytes() < 0) return line("lag", "not known");
  return line("lag", fmt::format("{}, {:.1f} s", size_text(report.lag_bytes()), report.lag_seconds()));
}

std::string table_lines(const StatusReport& report) {
  if (report.tables.empty()) return "";
  std::string text =
      fmt::format("\n{:<40} {:<8} {:>18} {:>14} {:>10}\n", "table", "phase", "boundary", "copied rows", "size");
  for (const auto& table : report.tables) {
    text += fmt::format("{:<40} {:<8} {:>18} {:>14} {:>10}\n", table.name.quoted(), phase_word(table),
                        lsn_text(table.boundary), table.rows, size_text(table.bytes));
    if (!table.note.empty()) text += fmt::format("    {}\n", table.note);
  }
  return text;
}

// Nothing for a replica with guard columns only, which is the usual one.
std::string guard_lines(const StatusReport& report) {
  const auto& guards = report.guards;
  std::int64_t entries = 0, bytes = 0;
  for (const auto& ledger : guards.ledgers) {
    entries += ledger.entries;
    bytes += ledger.bytes;
  }
  std::string text;
  if (!guards.ledgers.empty() || guards.tombstones > 0)
    text += line("guards", fmt::format("{} ledgers, about {} entries, {}; about {} tombstones, {}; expired below {}",
                                       guards.ledgers.size(), entries, size_text(bytes), guards.tombstones,
                                       size_text(guards.tombstone_bytes), lsn_text(guards.expired_lsn)));
  for (const auto& hold : report.holds)
    text += line("", fmt::format("tombstones of {} are kept from {} on: {}, for {:.0f} s", hold.table.quoted(),
                                 lsn_text(hold.from_lsn), hold.reason, hold.age_seconds));
  return text;
}

std::string last_error_lines(const StatusReport& report) {
  auto error = parse_last_error(report.replica->last_error);
  if (!error) return "";
  std::string text =
      line("last error", fmt::format("{} (exit code {}, {})", error->message, error->exit_code, time_text(error->at)));
  return error->hint.empty() ? text : text + line("", "HINT: " + error->hint);
}

}  // namespace

std::string time_text(std::string_view iso_utc) {
  std::string text(iso_utc);
  if (!text.ends_with('Z')) return text;
  text.pop_back();
  if (auto between = text.find('T'); between != std::string::npos) text[between] = ' ';
  return text + " UTC";
}

std::string status_text(const StatusReport& report) {
  if (!report.replica) {
    std::string text = line("replica", report.name) + line("phase", "none: the target knows no such replica");
    for (const auto& warning : report.warnings) text += line("WARNING", warning);
    return text;
  }
  const auto& replica = *report.replica;
  const auto& progress = report.progress;
  std::string text = line("replica", fmt::format("{} (generation {})", report.name, replica.generation));
  text += line("phase", fmt::format("{}: {}", to_string(replica.phase), meaning(replica.phase)));
  text += writer_line(report) + slot_line(report) + resync_line(report);
  text += line("positions", fmt::format("source {}, received {}, applied {}, confirmed {}",
                                        lsn_text(report.source_flush_lsn), lsn_text(progress.received_lsn),
                                        lsn_text(progress.applied_lsn), lsn_text(progress.confirmed_lsn)));
  text += lag_line(report);
  text += line("copied", fmt::format("{} of {} tables, {} of {}", report.tables_copied(), report.tables_total(),
                                     size_text(report.bytes_done()), size_text(report.bytes_total())));
  text += line("applied",
               fmt::format("{} transactions, {} changes since the copy", progress.transactions, progress.changes));
  text += guard_lines(report) + last_error_lines(report);
  for (const auto& warning : report.warnings) text += line("WARNING", warning);
  return text + table_lines(report);
}

}  // namespace pgbaton::app
