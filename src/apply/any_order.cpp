#include "any_order.hpp"

#include "reject.hpp"
#include "row_sql.hpp"
#include "row_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace pgbaton::apply {

namespace {

constexpr std::string_view kCopyAgain =
    "Copy the table, or this row, again: its unchanged values are known to the source alone.";

RowTarget target_of(RowSession& session, const Change& change) {
  return {*change.table, session.targets.scope(*change.table), change.commit_lsn};
}

// The key as a JSON array of its values: readable, and the same for every writer.
std::string tombstone_key(const TargetTable& table, wire::Tuple row) {
  std::string text = "[";
  for (std::size_t i : table.key) {
    if (text.size() > 1) text += ',';
    text += '"';
    for (char c : row[i].data) {
      if (c == '"' || c == '\\') text += '\\';
      if (static_cast<unsigned char>(c) < 0x20)
        text += fmt::format("\\u{:04x}", static_cast<int>(c));
      else
        text += c;
    }
    text += '"';
  }
  return text + "]";
}

bool has_unchanged(wire::Tuple row) {
  return std::any_of(row.begin(), row.end(), [](const auto& v) { return v.kind == wire::ValueKind::unchanged; });
}

Statement bury(const RowSession& session, const Change& change) {
  const TargetTable& table = *change.table;
  Statement statement;
  const std::string replica = statement.bind_view(session.replica, "text");
  const std::string schema = statement.bind_view(table.name.schema, "text");
  const std::string name = statement.bind_view(table.name.name, "text");
  const std::string key = statement.bind_own(tombstone_key(table, change.old_row), "text");
  const std::string lsn = statement.bind_lsn(change.commit_lsn);
  statement.sql = fmt::format(
      "INSERT INTO pgbaton.tombstone AS s (replica, schema_name, table_name, key, commit_lsn) VALUES ({}, {}, {}, {}, "
      "{}) "
      "ON CONFLICT (replica, schema_name, table_name, key) DO UPDATE SET commit_lsn = EXCLUDED.commit_lsn "
      "WHERE s.commit_lsn < EXCLUDED.commit_lsn",
      replica, schema, name, key, lsn);
  return statement;
}

}  // namespace

void AnyOrderWriter::write(const Change& change) {
  switch (change.operation) {
    case Operation::insert:
      return upsert(change, change.new_row);
    case Operation::update:
      if (change.key_changed()) return move(change);
      return has_unchanged(change.new_row) ? update_partly(change) : upsert(change, change.new_row);
    case Operation::remove:
      return remove(change);
    case Operation::truncate:
      return;
  }
}

// A tombstone of the key or the floor of the table is above the change (or at it, when asked).
bool AnyOrderWriter::buried(const Change& change, wire::Tuple key_row, bool also_at_same_lsn) {
  const TargetTable& table = *change.table;
  const std::string_view above = also_at_same_lsn ? ">=" : ">";
  Statement look;
  const std::string replica = look.bind_view(session_.replica, "text");
  const std::string schema = look.bind_view(table.name.schema, "text");
  const std::string name = look.bind_view(table.name.name, "text");
  const std::string key = look.bind_own(tombstone_key(table, key_row), "text");
  const std::string lsn = look.bind_lsn(change.commit_lsn);
  look.sql = fmt::format(
      "SELECT EXISTS (SELECT FROM pgbaton.tombstone WHERE replica = {0} AND schema_name = {1} AND table_name = {2} AND "
      "key = {3} AND commit_lsn {5} {4}) OR EXISTS (SELECT FROM pgbaton.table_state WHERE replica = {0} AND "
      "schema_name = {1} AND table_name = {2} AND floor_lsn {5} {4})",
      replica, schema, name, key, lsn, above);
  return session_.run(change, look).value(0, 0) == "t";
}

void AnyOrderWriter::upsert(const Change& change, wire::Tuple row) {
  if (buried(change, row, false)) {
    ++session_.counts.stale;
    return;
  }
  const RowTarget target = target_of(session_, change);
  if (change.table->key_is_arbiter) {
    if (session_.write(change, insert_row(target, row, OnConflict::overwrite)) == 0) ++session_.counts.stale;
    return;
  }
  if (session_.write(change, update_row(target, row, row, false)) > 0) return;
  if (find_row(session_, change, row) == Found::missing)
    session_.write(change, insert_row(target, row, OnConflict::fail));
  else
    ++session_.counts.stale;
}

void AnyOrderWriter::update_partly(const Change& change) {
  if (buried(change, change.new_row, false)) {
    ++session_.counts.stale;
    return;
  }
  if (session_.write(change, update_row(target_of(session_, change), change.new_row, change.new_row, false)) > 0)
    return;
  if (find_row(session_, change, change.new_row) == Found::missing && !buried(change, change.new_row, true))
    throw rejected(change, "a partial update arrived and its row is not on the target", kCopyAgain);
  ++session_.counts.stale;
}

void AnyOrderWriter::remove(const Change& change) {
  session_.run(change, bury(session_, change));
  if (session_.write(change, delete_row(target_of(session_, change), change.old_row)) > 0) return;
  if (find_row(session_, change, change.old_row) != Found::missing) ++session_.counts.stale;
}

// Fills the unchanged values of `row` from the old row, unless that is gone or already belongs to a newer change.
bool AnyOrderWriter::complete(const Change& change, std::span<wire::Value> row, std::span<std::string> kept) {
  const pg::Result old_row = session_.run(change, select_row(target_of(session_, change), change.old_row));
  if (old_row.rows() != 1) return false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i].kind != wire::ValueKind::unchanged) continue;
    const int column = static_cast<int>(i);
    kept[i] = old_row.text(0, column);
    row[i] = old_row.is_null(0, column) ? wire::Value{} : wire::Value{wire::ValueKind::text, kept[i]};
  }
  return true;
}

void AnyOrderWriter::move(const Change& change) {
  const TargetTable& table = *change.table;
  const bool same = std::all_of(table.key.begin(), table.key.end(),
                                [&](std::size_t i) { return change.old_row[i].data == change.new_row[i].data; });
  if (same) return has_unchanged(change.new_row) ? update_partly(change) : upsert(change, change.new_row);

  std::vector<wire::Value> row(change.new_row.begin(), change.new_row.end());
  std::vector<std::string> kept(row.size());
  if (has_unchanged(row) && !complete(change, row, kept)) {
    // Either this move was applied before, or the row's values never came.
    const Found found = find_row(session_, change, change.new_row);
    if (found != Found::newer && found != Found::same && !buried(change, change.new_row, true))
      throw rejected(change, "a partial update with a new key arrived and its row is not on the target", kCopyAgain);
    session_.run(change, bury(session_, change));
    ++session_.counts.stale;
    return;
  }
  remove(change);
  upsert(change, row);
}

}  // namespace pgbaton::apply
