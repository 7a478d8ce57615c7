#include "new_rows.hpp"

#include "batch_sql.hpp"
#include "binary_format.hpp"
#include "guard.hpp"
#include "text_format.hpp"

#include <pgbaton/pg/copy.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace pgbaton::apply {

namespace {

constexpr std::size_t kChunkBytes = 64 * 1024;

bool append_binary_row(std::string& out, const std::vector<Codec>& codecs, const BatchRow& row, bool guarded) {
  append_copy_row(out, codecs.size() + (guarded ? 1 : 0));
  for (std::size_t i = 0; i < codecs.size(); ++i)
    if (!append_binary(out, codecs[i], row.values[i])) return false;
  if (guarded) append_binary(out, row.commit_lsn);
  return true;
}

void append_text_row(std::string& out, const BatchRow& row, bool guarded) {
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (i > 0) out += '\t';
    append_copy_field(out, row.values[i]);
  }
  if (guarded) out += '\t' + to_string(row.commit_lsn);
  out += '\n';
}

// Sends the chunk when it is large enough.
void pass_on(pg::CopyIn& copy, std::string& chunk) {
  if (chunk.size() < kChunkBytes) return;
  copy.write(chunk);
  chunk.clear();
}

long long end(pg::CopyIn& copy, const std::string& chunk) {
  copy.write(chunk);
  return copy.finish();
}

// Takes from `rows` what it has written.
long long copy_binary(pg::Connection& connection, const TargetTable& table, const std::vector<Codec>& codecs,
                      std::span<const BatchRow>& rows) {
  const bool guarded = guard::is_stored(table.guard);
  pg::CopyIn copy(connection, copy_statement(table, true));
  std::string chunk;
  append_copy_header(chunk);
  for (; !rows.empty(); rows = rows.subspan(1)) {
    const std::size_t before = chunk.size();
    if (!append_binary_row(chunk, codecs, rows.front(), guarded)) {
      chunk.resize(before);
      break;
    }
    pass_on(copy, chunk);
  }
  append_copy_end(chunk);
  return end(copy, chunk);
}

long long copy_text(pg::Connection& connection, const TargetTable& table, std::span<const BatchRow> rows) {
  const bool guarded = guard::is_stored(table.guard);
  pg::CopyIn copy(connection, copy_statement(table, false));
  std::string chunk;
  for (const BatchRow& row : rows) {
    append_text_row(chunk, row, guarded);
    pass_on(copy, chunk);
  }
  return end(copy, chunk);
}

}  // namespace

long long copy_rows(pg::Connection& connection, const TargetTable& table, std::span<const BatchRow> rows) {
  std::vector<Codec> codecs;
  for (const TargetColumn& column : table.columns) codecs.push_back(binary_type(column.cast_type).codec);
  long long stored = 0;
  if (std::find(codecs.begin(), codecs.end(), Codec::none) == codecs.end())
    stored += copy_binary(connection, table, codecs, rows);
  if (!rows.empty()) stored += copy_text(connection, table, rows);
  return stored;
}

}  // namespace pgbaton::apply
