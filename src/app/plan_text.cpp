// clone --dry-run, for people.
#include <fmt/format.h>
#include <pgbaton/base/size.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/base/words.hpp>

#include "layout.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

std::string line(std::string_view label, std::string_view text) {
  return fmt::format("{:<12}{}\n", label, text);
}

std::string names_lines(const snapshot::DryRun& plan, std::string_view phase) {
  std::string text = line("replica", plan.name + (phase == "none" ? "" : fmt::format(" (exists, phase {})", phase)));
  text += line("slot", plan.slot);
  text +=
      line("publication", plan.publication + (plan.own_publication ? "" : " (exists, is verified and never dropped)"));
  if (!plan.publication_inserts.empty())
    text += line("", plan.publication_inserts + " (INSERT and TRUNCATE of tables without a usable identity)");
  text += line("schema",
               plan.schema == snapshot::SchemaMode::full ? "by pg_dump and pg_restore" : "the target's own tables");
  return text + line("connections", fmt::format("up to {} to the source (one of them a walsender), {} to the target",
                                                plan.source_connections, plan.target_connections));
}

std::string estimate_lines(const snapshot::Estimate& estimate) {
  std::string text = line("time", fmt::format("about {} for the copy, {} for {} of indexes; less where both overlap",
                                              format_duration(estimate.copy_time), format_duration(estimate.index_time),
                                              format_size(estimate.index_bytes)));
  return text + line("WAL", fmt::format("about {} on the target; the slot will hold about {} on the source, which "
                                        "writes {}/s now",
                                        format_size(estimate.target_wal_bytes), format_size(estimate.slot_wal_bytes),
                                        format_size(estimate.source_wal_per_second)));
}

}  // namespace

std::string plan_text(const snapshot::DryRun& plan, std::string_view phase) {
  std::string text = names_lines(plan, phase) + estimate_lines(plan.estimate);
  std::vector<std::vector<std::string>> rows{{"", "table", "size", "rows (about)", "parts", "guard", "publication"}};
  int number = 0;
  for (const auto& table : plan.tables) {
    rows.push_back({table.copied ? std::to_string(++number) : "-", table.name.quoted(), format_size(table.bytes),
                    table.estimated_rows < 0 ? "unknown" : grouped(static_cast<std::int64_t>(table.estimated_rows)),
                    std::to_string(table.parts), std::string(state::to_string(table.guard)),
                    table.publication.empty() ? "-" : table.publication});
    if (!table.guard_reason.empty())
      rows.push_back({fmt::format("       guard {}: {}", state::to_string(table.guard), table.guard_reason)});
    if (!table.note.empty()) rows.push_back({"       " + table.note});
  }
  for (const auto& name : plan.left_out) rows.push_back({fmt::format("-  {}: left out by the filter", name.quoted())});
  text += "\n" + in_columns(rows, "rlrrrll");
  auto to_do =
      number == 0 && phase != "none"
          ? std::string("nothing to copy: every table of the replica is copied; `pgbaton clone --follow` goes on")
          : fmt::format("{} to copy, {}", counted(number, "table"), format_size(plan.bytes_total));
  return text + fmt::format("\n{}; nothing was changed\n", to_do);
}

}  // namespace pgbaton::app
