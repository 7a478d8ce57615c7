// What clone and follow did, for people: a table with a row for each phase.
//
//   phase                     time     tables           rows       size   rate
//   slot and snapshot       120 ms
//   schema                   1.2 s
//   copy                     8.1 s         12      1,234,567     1.2 GB   152 MB/s, 152,000 rows/s
//   indexes, constraints     3.2 s         12
//   stream                  20.0 s                 3,400                  170 changes/s
#include <fmt/format.h>

#include "layout.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

std::string row(std::string_view phase, std::string_view time, std::string_view tables, std::string_view rows,
                std::string_view size, std::string_view rate) {
  auto text = fmt::format("{:<22}{:>10}{:>10}{:>18}{:>10}   {}", phase, time, tables, rows, size, rate);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::int64_t per_second(std::int64_t amount, Milliseconds time) {
  return amount * 1000 / std::max<std::int64_t>(time.count(), 1);
}

std::string copy_rows(const snapshot::CloneSummary& clone) {
  auto tables = clone.tables - clone.tables_kept;
  auto rows = clone.rows - clone.rows_kept, bytes = clone.bytes - clone.bytes_kept;
  std::string text;
  if (clone.slot_time.count() > 0) text += row("slot and snapshot", format_duration(clone.slot_time), "", "", "", "");
  text += row("schema", format_duration(clone.schema_time), "", "", "", "");
  text += row("copy", format_duration(clone.copy_time), count_text(tables), count_text(rows), size_text(bytes),
              fmt::format("{}/s, {} rows/s", size_text(per_second(bytes, clone.copy_time)),
                          count_text(per_second(rows, clone.copy_time))));
  if (clone.tables_kept > 0)
    text += row("kept from before", "", count_text(clone.tables_kept), count_text(clone.rows_kept),
                size_text(clone.bytes_kept), "");
  // Most of it is done while other tables are copied; the time is what came after the last of them.
  return text + row("indexes, constraints", format_duration(clone.finish_time), count_text(clone.tables), "", "", "");
}

}  // namespace

std::string run_text(const RunResult& result) {
  std::string text;
  bool copied = result.clone && result.clone->tables > 0;
  if (copied || result.stream) text = row("phase", "time", "tables", "rows", "size", "rate");
  if (copied) text += copy_rows(*result.clone);
  if (const auto& stream = result.stream) {
    text +=
        row("stream", format_duration(result.stream_time), "", count_text(stream->changes), "",
            fmt::format("{} changes/s, {} transactions/s", count_text(per_second(stream->changes, result.stream_time)),
                        count_text(per_second(stream->transactions, result.stream_time))));
    text += fmt::format("applied {} transactions with {} changes up to {}\n", stream->transactions, stream->changes,
                        to_string(stream->applied_lsn));
  }
  if (copied && result.clone->tables_skipped > 0)
    text += fmt::format("not copied: {} tables; `pgbaton status` says why\n", result.clone->tables_skipped);
  return text + fmt::format("replica {}: {}\n", result.name, result.result);
}

}  // namespace pgbaton::app
