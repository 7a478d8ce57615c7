// What clone and follow did, for people: a table with a row for each phase.
//
//   phase                    time  tables       rows    size  rate
//   slot and snapshot      120 ms
//   schema                  1.2 s
//   copy                    8.1 s      12  1,234,567  1.2 GB  152 MB/s, 152,000 rows/s
//   indexes, constraints    3.2 s      12
//   stream                 20.0 s              3,400          170 changes/s
#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include "layout.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::int64_t per_second(std::int64_t amount, Milliseconds time) {
  return amount * 1000 / std::max<std::int64_t>(time.count(), 1);
}

void add_copy(const snapshot::CloneSummary& clone, Rows& rows) {
  const auto tables = clone.tables - clone.tables_kept;
  const auto copied = clone.rows - clone.rows_kept, bytes = clone.bytes - clone.bytes_kept;
  if (clone.slot_time.count() > 0)
    rows.push_back({"slot and snapshot", format_duration(clone.slot_time), "", "", "", ""});
  rows.push_back({"schema", format_duration(clone.schema_time), "", "", "", ""});
  rows.push_back({"copy", format_duration(clone.copy_time), count_text(tables), count_text(copied), size_text(bytes),
                  fmt::format("{}/s, {} rows/s", size_text(per_second(bytes, clone.copy_time)),
                              count_text(per_second(copied, clone.copy_time)))});
  if (clone.tables_kept > 0)
    rows.push_back({"kept from before", "", count_text(clone.tables_kept), count_text(clone.rows_kept),
                    size_text(clone.bytes_kept), ""});
  // Most of it is done while other tables are copied; the time is what came after the last of them.
  rows.push_back({"indexes, constraints", format_duration(clone.finish_time), count_text(clone.tables), "", "", ""});
}

void add_stream(const stream::StreamStatus& stream, Milliseconds time, Rows& rows) {
  rows.push_back({"stream", format_duration(time), "", count_text(stream.changes), "",
                  fmt::format("{} changes/s, {} transactions/s", count_text(per_second(stream.changes, time)),
                              count_text(per_second(stream.transactions, time)))});
}

}  // namespace

std::string run_text(const RunResult& result) {
  Rows rows{{"phase", "time", "tables", "rows", "size", "rate"}};
  const bool copied = result.clone && result.clone->tables > 0;
  if (copied) add_copy(*result.clone, rows);
  if (result.stream) add_stream(*result.stream, result.stream_time, rows);
  std::string text = rows.size() > 1 ? in_columns(rows, "lrrrrl") : "";
  if (const auto& stream = result.stream)
    text += fmt::format("applied {} with {} up to {}\n", counted(stream->transactions, "transaction"),
                        counted(stream->changes, "change"), to_string(stream->applied_lsn));
  if (copied && result.clone->tables_skipped > 0)
    text += fmt::format("not copied: {}; `pgbaton status` says why\n", counted(result.clone->tables_skipped, "table"));
  return text + fmt::format("replica {}: {}\n", result.name, result.result);
}

}  // namespace pgbaton::app
