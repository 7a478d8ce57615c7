// Results for people.
#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

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
      return "the copy is complete and was level with the source once";
  }
  return "";
}

std::string writer_line(const StatusReport& report) {
  if (!report.writer_holds)
    return line("writer", fmt::format("none runs: nothing is {} until `pgbaton {}` goes on",
                                      report.replica->phase < state::Phase::streaming ? "copied" : "applied",
                                      report.replica->phase < state::Phase::streaming ? "clone" : "follow"));
  const auto& replica = *report.replica;
  return line("writer", fmt::format("host {}, pid {}, since {}", replica.writer_host, replica.writer_pid,
                                    time_text(replica.writer_since)));
}

std::string readiness_lines(const StatusReport& report) {
  const auto& replica = *report.replica;
  const auto& seen = replica.readiness;
  std::string steps;
  const auto add = [&](std::string_view what, bool reached, const std::string& at) {
    if (!reached) return;
    steps += fmt::format("{}{}", steps.empty() ? "" : ", ", what);
    if (!at.empty()) steps += " " + time_text(at);
  };
  add("copied", replica.phase >= state::Phase::indexing, seen.copied_at);
  add("indexed", replica.phase >= state::Phase::streaming, seen.indexed_at);
  add("ready", replica.phase == state::Phase::ready, seen.ready_at);
  std::string text = line("readiness", steps.empty() ? "not every row is copied" : steps);
  const auto missing = missing_for_ready(replica, report.progress.applied_lsn, report.writer, report.doubts);
  return missing.empty() ? text : text + line("", "not ready yet: " + missing);
}

std::string resync_line(const StatusReport& report) {
  if (report.tables_detached == 0 && !report.resync_runs && !report.resync_slot) return "";
  return line("resync", fmt::format("{}, {}, {} of WAL held", report.resync_runs ? "running" : "NOT RUNNING",
                                    counted(report.tables_detached, "table"),
                                    report.resync_slot ? size_text(report.resync_slot->held_bytes) : "nothing"));
}

std::string slot_lines(const StatusReport& report) {
  if (!report.source_problem.empty()) return line("slot", "not known: " + report.source_problem);
  if (!report.slot) return line("slot", "there is none");
  const auto& slot = *report.slot;
  auto text = fmt::format("{}, {}, WAL {}, {} held", slot.name, slot.active ? "active" : "not active",
                          slot.wal_status.empty() ? "status unknown" : slot.wal_status, size_text(slot.held_bytes));
  if (slot.safe_bytes >= 0)
    text += fmt::format(", lost after {} more (max_slot_wal_keep_size)", size_text(slot.safe_bytes));
  text = line("slot", text);
  if (const auto& held = report.snapshot)
    text += line("snapshot", fmt::format("held for {} by session {} ({}), {} old", duration_text(held->age_seconds),
                                         held->pid, held->role, counted(held->age_transactions, "transaction")));
  return text;
}

std::string position_lines(const StatusReport& report) {
  const auto& progress = report.progress;
  return line("positions", fmt::format("source {}, received {}, applied {}, confirmed {}",
                                       lsn_text(report.source_flush_lsn), lsn_text(progress.received_lsn),
                                       lsn_text(progress.applied_lsn), lsn_text(progress.confirmed_lsn))) +
         line("", fmt::format("consistent point {}, largest boundary {}", lsn_text(report.replica->consistent_point),
                              lsn_text(report.largest_boundary())));
}

std::string time_left(double seconds) {
  return seconds < 0 ? "" : ", ETA " + duration_text(seconds);
}

std::string lag_lines(const StatusReport& report) {
  std::string text;
  if (const auto left = report.copy_left_bytes(); left > 0)
    text += line("copy lag", fmt::format("{} to copy{}", size_text(left), time_left(report.copy_left_seconds())));
  if (report.lag_bytes() < 0) return text + line("lag", "not known");
  if (report.replica->phase < state::Phase::streaming)
    return text + line("lag", fmt::format("none yet: changes are applied after the copy; {} of WAL wait in the slot",
                                          size_text(report.lag_bytes())));
  auto stream = fmt::format("{}, {:.1f} s", size_text(report.lag_bytes()), report.lag_seconds());
  if (const double seconds = report.seconds_to_catch_up(); seconds >= 1) stream += time_left(seconds);
  return text + line("lag", stream);
}

std::string rate_lines(const StatusReport& report) {
  std::string text;
  if (report.copy_left_bytes() > 0 && report.reported("copy_bytes_per_second") >= 0)
    text += line("rates", fmt::format("copy {}/s, {:.0f} rows/s",
                                      size_text(static_cast<std::int64_t>(report.reported("copy_bytes_per_second"))),
                                      report.reported("copy_rows_per_second")));
  if (report.reported("changes_per_second") >= 0)
    text +=
        line("rates", fmt::format("{:.0f} transactions/s, {:.0f} changes/s; WAL applied {}/s, written {}/s",
                                  report.reported("transactions_per_second"), report.reported("changes_per_second"),
                                  size_text(static_cast<std::int64_t>(report.reported("applied_bytes_per_second"))),
                                  size_text(static_cast<std::int64_t>(report.reported("source_bytes_per_second")))));
  return text;
}

// Whom the application should not wait for.
std::string waiting_lines(const StatusReport& report) {
  std::string text;
  for (const auto& waiting : report.waiting)
    text += line("WAITING", fmt::format("on the source, pid {} ({}) for {} behind our {}: {}", waiting.pid,
                                        waiting.application_name.empty() ? waiting.user : waiting.application_name,
                                        duration_text(waiting.seconds), waiting.role,
                                        waiting.query.empty() ? waiting.mode + " " + waiting.table : waiting.query));
  return text;
}

std::string table_lines(const StatusReport& report) {
  if (report.tables.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"table", "phase", "boundary", "copied rows", "size", ""}};
  for (const auto& table : report.tables) {
    const auto found = report.parts.find(table.name);
    const auto parts = found == report.parts.end()
                           ? ""
                           : fmt::format("{} of {}", found->second.done, counted(found->second.total, "part"));
    rows.push_back({table.name.quoted(), std::string(phase_word(table)), lsn_text(table.boundary),
                    count_text(table.rows), size_text(table.bytes), parts});
    if (!table.note.empty()) rows.push_back({"    " + table.note});
  }
  return "\n" + in_columns(rows, "llrrrl");
}

std::string guard_lines(const StatusReport& report) {
  const auto& guards = report.guards;
  std::int64_t entries = 0, bytes = 0, columns = 0;
  for (const auto& ledger : guards.ledgers) {
    entries += ledger.entries;
    bytes += ledger.bytes;
  }
  for (const auto& table : report.tables) columns += table.guard == state::GuardKind::column && table.guarded ? 1 : 0;
  auto summary = fmt::format("a column in {}", counted(columns, "table"));
  if (!guards.ledgers.empty())
    summary +=
        fmt::format(", {} with about {}, {}", counted(static_cast<std::int64_t>(guards.ledgers.size()), "ledger"),
                    counted(entries, "entry", "entries"), size_text(bytes));
  if (guards.tombstones > 0)
    summary +=
        fmt::format(", about {}, {}", counted(guards.tombstones, "tombstone"), size_text(guards.tombstone_bytes));
  if (guards.tombstones > 0 || entries > 0)
    summary += fmt::format("; needed from {} on, expired below {}", lsn_text(report.oldest_deliverable_lsn()),
                           lsn_text(guards.expired_lsn));
  std::string text = line("guards", summary);
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

std::string trouble_lines(const StatusReport& report) {
  std::string text;
  for (const auto& event : report.troubles)
    text += line(text.empty() ? "lately" : "", fmt::format("{} {}{}{}", time_text(event.at), event.kind,
                                                           event.message.empty() ? "" : ": ", event.message));
  return text;
}

}  // namespace

std::string time_text(std::string_view iso_utc) {
  std::string text(iso_utc);
  if (!text.ends_with('Z')) return text;
  text.pop_back();
  if (auto between = text.find('T'); between != std::string::npos) text[between] = ' ';
  return text + " UTC";
}

namespace {

std::string fence_lines(const StatusReport& report) {
  std::string text;
  bool told = !report.readers_on_target;
  for (const auto& fence : report.fences) {
    text += line("CLOSED", fence.message + (fence.remedy.empty() ? "" : "; " + fence.remedy));
    told = told || fence.standing == switchover::Standing::readers_sent;
  }
  return told ? text : text + line("READERS", "of the application were sent to the target of the stream");
}

}  // namespace

std::string status_text(const StatusReport& report) {
  if (!report.replica) {
    std::string text = line("replica", report.name) + line("phase", "none: the target knows no such replica");
    text += fence_lines(report);
    for (const auto& warning : report.warnings) text += line("WARNING", warning);
    return text;
  }
  const auto& replica = *report.replica;
  const auto& progress = report.progress;
  std::string text = line("replica", fmt::format("{} (generation {})", report.name, replica.generation));
  text += line("phase", fmt::format("{}: {}", to_string(replica.phase), meaning(replica.phase)));
  text +=
      readiness_lines(report) + writer_line(report) + slot_lines(report) + resync_line(report) + position_lines(report);
  text += lag_lines(report) + rate_lines(report);
  text +=
      line("copied", fmt::format("{} of {}, {} of {}", report.tables_copied(), counted(report.tables_total(), "table"),
                                 size_text(report.bytes_done()), size_text(report.bytes_total())));
  text += line("applied", fmt::format("{}, {} since the copy", counted(progress.transactions, "transaction"),
                                      counted(progress.changes, "change")));
  text += fence_lines(report) + guard_lines(report) + last_error_lines(report) + trouble_lines(report) +
          waiting_lines(report);
  for (const auto& doubt : report.doubts)
    text += line(doubt.kind == state::DoubtKind::outside ? "NOT THERE" : "IN DOUBT",
                 fmt::format("{} {}; {}", doubt.table.quoted(), doubt.reason, doubt.remedy));
  for (const auto& warning : report.warnings) text += line("WARNING", warning);
  return text + table_lines(report);
}

}  // namespace pgbaton::app
