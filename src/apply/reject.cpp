#include "reject.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pgbaton/pg/sqlstate.hpp>

#include <numeric>
#include <vector>

namespace pgbaton::apply {

namespace {

// Long enough to recognise a row, short enough for one line of a log.
constexpr std::size_t kShownValueBytes = 60;

std::string shown(const wire::Value& value) {
  switch (value.kind) {
    case wire::ValueKind::null:
      return "null";
    case wire::ValueKind::unchanged:
      return "unchanged";
    case wire::ValueKind::binary:
      return "binary";
    case wire::ValueKind::text:
      break;
  }
  if (value.data.size() <= kShownValueBytes) return std::string(value.data);
  std::size_t cut = kShownValueBytes;
  while (cut > 0 && (static_cast<unsigned char>(value.data[cut]) & 0xC0) == 0x80)
    --cut;  // not inside a UTF-8 character
  return std::string(value.data.substr(0, cut)) + "...";
}

wire::Tuple row_with_key(const Change& change) {
  const bool old_row = change.operation == Operation::remove || (change.table->key.empty() && !change.old_row.empty());
  return old_row ? change.old_row : change.new_row;
}

std::string_view hint_of(std::string_view sqlstate) {
  if (sqlstate == "23505")
    return "Remove or correct what the row collides with on the target (or the constraint that the source does not "
           "have), then run the same command again. Where unique values changed places on the target, `pgbaton resync` "
           "of the table copies it again.";
  if (sqlstate.starts_with("23"))
    return "Remove or correct what the row collides with on the target (or the constraint that the source does not "
           "have), "
           "then run the same command again.";
  if (sqlstate == "42501") return "Grant the target role what the message names, then run the same command again.";
  if (sqlstate.starts_with("42"))
    return "Make the table on the target like the one on the source, then run the same command again.";
  return "Correct what the message names on the target, then run the same command again.";
}

}  // namespace

std::string key_text(const TargetTable& table, wire::Tuple row) {
  std::vector<std::size_t> columns = table.key;
  if (columns.empty()) {
    columns.resize(row.size());
    std::iota(columns.begin(), columns.end(), std::size_t{0});
  }
  std::vector<std::string> names, values;
  for (std::size_t i : columns) {
    if (i >= row.size()) break;
    names.push_back(table.columns[i].name);
    values.push_back(shown(row[i]));
  }
  return fmt::format("({})=({})", fmt::join(names, ", "), fmt::join(values, ", "));
}

bool is_rejection(std::string_view sqlstate) {
  if (pg::is_data_error(sqlstate)) return true;
  const std::string_view sqlstate_class = sqlstate.substr(0, 2);
  // 21: ON CONFLICT or a subquery met a row twice; 42: schema drift; 0A: the table cannot do this; P0: raised by a
  // trigger that also fires for replicas; 55000: e.g. no partition identity, a view in the table's place.
  return sqlstate_class == "21" || sqlstate_class == "42" || sqlstate_class == "0A" || sqlstate_class == "P0" ||
         sqlstate == "55000";
}

Error rejected(const Change& change, std::string_view message, std::string_view hint) {
  Error error(ErrorKind::rejected, std::string(message));
  error.side(Side::target).lsn(change.commit_lsn).hint(hint);
  if (change.table != nullptr) error.table(change.table->quoted).key(key_text(*change.table, row_with_key(change)));
  return error;
}

Error located(const Error& error, const Change& change) {
  if (is_rejection(error.sqlstate()))
    return rejected(change, error.message(), hint_of(error.sqlstate())).sqlstate(error.sqlstate());
  Error same = error;
  same.lsn(change.commit_lsn);
  if (change.table != nullptr) same.table(change.table->quoted).key(key_text(*change.table, row_with_key(change)));
  return same;
}

}  // namespace pgbaton::apply
