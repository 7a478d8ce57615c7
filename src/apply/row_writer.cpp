#include "row_writer.hpp"

#include "reject.hpp"
#include "row_sql.hpp"
#include "truncate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pgbaton::apply {

namespace {

constexpr std::string_view kMissingHint =
    "The row was removed on the target, or never copied: put it back or copy the table again (pgbaton resync), then "
    "run the "
    "same command again.";
constexpr std::string_view kConflictHint =
    "Something else wrote to the target: remove the row there, or copy the table again (pgbaton resync), then run the "
    "same "
    "command again.";

bool is_rewritten(const Change& change) {
  return change.key_changed() && !std::all_of(change.table->key.begin(), change.table->key.end(), [&](std::size_t i) {
           return change.old_row[i].data == change.new_row[i].data;
         });
}

bool changes_identity_always_key(const Change& change) {
  return std::any_of(change.table->key.begin(), change.table->key.end(),
                     [&](std::size_t i) { return change.table->columns[i].identity_always; });
}

void check_shape(const Change& change) {
  const std::size_t width = change.table->columns.size();
  const bool needs_new = change.operation == Operation::insert || change.operation == Operation::update;
  auto sendable = [](const wire::Value& v) { return v.kind != wire::ValueKind::binary; };
  const bool fits = (needs_new ? change.new_row.size() == width : true) &&
                    (change.old_row.empty() || change.old_row.size() == width) &&
                    (change.operation != Operation::remove || change.old_row.size() == width) &&
                    std::all_of(change.new_row.begin(), change.new_row.end(), sendable) &&
                    std::all_of(change.old_row.begin(), change.old_row.end(), sendable);
  if (!fits)
    throw Error(ErrorKind::failed, "apply was given a change that does not fit its table")
        .side(Side::local)
        .action(Action::bug)
        .table(change.table->quoted)
        .lsn(change.commit_lsn)
        .hint("This is a fault in pgbaton: please report it with the table's definition.");
}

}  // namespace

Found find_row(RowSession& session, const Change& change, wire::Tuple key_row) {
  const RowTarget target{*change.table, session.targets.scope(*change.table), change.commit_lsn};
  const pg::Result result = session.run(change, compare_guard(target, key_row));
  if (result.rows() == 0) return Found::missing;
  if (result.is_null(0, 0)) return Found::unguarded;
  const std::string_view compared = result.value(0, 0);
  return compared == "1" ? Found::newer : compared == "0" ? Found::same : Found::older;
}

RowTarget RowWriter::target(const Change& change) {
  return {*change.table, session_.targets.scope(*change.table), change.commit_lsn};
}

void RowWriter::write(const Change& change) {
  if (change.operation == Operation::truncate) return write_truncate(session_, change);
  check_shape(change);
  const bool keyless = change.table->key.empty();
  if (change.table->delivery == Delivery::any_order && !keyless) return any_order_.write(change);
  switch (change.operation) {
    case Operation::insert:
      return insert(change);
    case Operation::update:
      return keyless ? update_keyless(change) : update(change);
    case Operation::remove:
      return keyless ? remove_keyless(change) : remove(change);
    case Operation::truncate:
      return;
  }
}

void RowWriter::expect_one(const Change& change, long long rows) {
  if (rows > 1) throw rejected(change, fmt::format("{} rows on the target have this key", rows), kConflictHint);
}

void RowWriter::insert(const Change& change) {
  const bool arbiter = !change.table->key.empty() && change.table->key_is_arbiter;
  const auto on_conflict = arbiter ? OnConflict::nothing : OnConflict::fail;
  if (session_.write(change, insert_row(target(change), change.new_row, on_conflict)) == 1) return;
  if (arbiter) return resolve_conflict(change);
  throw rejected(change, "the target took the INSERT but stored no row", "Look for a trigger or rule on the table.");
}

void RowWriter::resolve_conflict(const Change& change) {
  switch (find_row(session_, change, change.new_row)) {
    case Found::newer:
      ++session_.counts.stale;
      return;
    case Found::same:
      session_.write(change, insert_row(target(change), change.new_row, OnConflict::overwrite));
      return;
    case Found::older:
    case Found::unguarded:
      throw rejected(change, "a row with this key is already on the target, and not from this source", kConflictHint);
    case Found::missing:
      throw rejected(change, "a row with an equal key is already on the target", kConflictHint);
  }
}

void RowWriter::update(const Change& change) {
  const bool rewritten = is_rewritten(change);
  const wire::Tuple key_row = rewritten ? change.old_row : change.new_row;
  const bool anew = rewritten && changes_identity_always_key(change);
  const long long rows = session_.write(change, anew ? replace_row(target(change), key_row, change.new_row)
                                                     : update_row(target(change), key_row, change.new_row, rewritten));
  expect_one(change, rows);
  if (rows == 0) explain_untouched(change, key_row);
}

void RowWriter::remove(const Change& change) {
  const long long rows = session_.write(change, delete_row(target(change), change.old_row));
  expect_one(change, rows);
  if (rows == 0) explain_untouched(change, change.old_row);
}

void RowWriter::explain_untouched(const Change& change, wire::Tuple key_row) {
  const bool updates = change.operation == Operation::update;
  const Found found = find_row(session_, change, key_row);
  if (found == Found::newer) {
    ++session_.counts.stale;
    return;
  }
  if (found == Found::missing)
    throw rejected(change,
                   fmt::format("the row that the source {} is not on the target", updates ? "updated" : "deleted"),
                   kMissingHint)
        .key(key_text(*change.table, key_row));
  const auto& columns = change.table->columns;
  const bool identity = std::any_of(columns.begin(), columns.end(), [](const auto& c) { return c.identity_always; });
  if (updates && identity && session_.write(change, replace_row(target(change), key_row, change.new_row)) == 1) return;
  throw rejected(change, "the target took the statement but touched no row",
                 "Look for a trigger or rule on the table.");
}

void RowWriter::update_keyless(const Change& change) {
  if (change.old_row.empty())
    throw rejected(change, "update of a table without identity",
                   "Set a replica identity on the source and copy it again.");
  const auto& columns = change.table->columns;
  bool anew = false;
  for (std::size_t i = 0; i < columns.size(); ++i)
    anew |= columns[i].identity_always && change.old_row[i].data != change.new_row[i].data;
  if (!anew) {
    if (session_.write(change, update_one_equal_row(target(change), change.old_row, change.new_row)) == 1) return;
    throw rejected(change, "no row on the target equals the one that the source updated", kMissingHint);
  }
  std::vector<wire::Value> row(change.new_row.begin(), change.new_row.end());
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].kind == wire::ValueKind::unchanged) row[i] = change.old_row[i];
  remove_keyless(change);
  if (session_.write(change, insert_row(target(change), row, OnConflict::fail)) != 1)
    throw rejected(change, "the target took the INSERT but stored no row", "Look for a trigger or rule on the table.");
}

void RowWriter::remove_keyless(const Change& change) {
  if (session_.write(change, delete_one_equal_row(target(change), change.old_row)) != 1)
    throw rejected(change, "no row on the target equals the one that the source changed", kMissingHint);
}

}  // namespace pgbaton::apply
