#include "any_order.hpp"

#include "reject.hpp"
#include "row_sql.hpp"
#include "row_writer.hpp"
#include "tombstone.hpp"

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

bool has_unchanged(wire::Tuple row) {
  return std::any_of(row.begin(), row.end(), [](const auto& v) { return v.kind == wire::ValueKind::unchanged; });
}

}  // namespace

void AnyOrderWriter::write(const Change& change) {
  require_remembered(session_, change);
  switch (change.operation) {
    case Operation::insert:
      return upsert(change, change.new_row);
    case Operation::update:
      if (change.key_changed()) return move(change);
      return has_unchanged(change.new_row) ? update_partly(change) : upsert(change, change.new_row);
    case Operation::remove:
      return remove(change);
    case Operation::truncate:
    case Operation::define:
      return;
  }
}

void AnyOrderWriter::upsert(const Change& change, wire::Tuple row) {
  if (is_buried(session_, change, row, false)) {
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
  if (is_buried(session_, change, change.new_row, false)) {
    ++session_.counts.stale;
    return;
  }
  if (session_.write(change, update_row(target_of(session_, change), change.new_row, change.new_row, false)) > 0)
    return;
  if (find_row(session_, change, change.new_row) == Found::missing &&
      !is_buried(session_, change, change.new_row, true))
    throw rejected(change, "a partial update arrived and its row is not on the target", kCopyAgain);
  ++session_.counts.stale;
}

void AnyOrderWriter::remove(const Change& change) {
  bury(session_, change, change.old_row);
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
    if (found != Found::newer && found != Found::same && !is_buried(session_, change, change.new_row, true))
      throw rejected(change, "a partial update with a new key arrived and its row is not on the target", kCopyAgain);
    bury(session_, change, change.old_row);
    ++session_.counts.stale;
    return;
  }
  remove(change);
  upsert(change, row);
}

}  // namespace pgbaton::apply
