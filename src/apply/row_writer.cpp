#include "row_writer.hpp"

#include "missing.hpp"
#include "reject.hpp"
#include "row_sql.hpp"
#include "tombstone.hpp"
#include "truncate.hpp"

#include <fmt/format.h>
#include <pgbaton/apply/applier.hpp>
#include <pgbaton/pg/pipeline.hpp>

#include <algorithm>

namespace pgbaton::apply {

namespace {

constexpr std::string_view kMissingHint =
    "The row was removed on the target, or never copied: run the same command with --missing repair, or `pgbaton "
    "verify "
    "--repair`, which looks for others like it; or put it back as the source has it.";
constexpr std::string_view kConflictHint =
    "Something else wrote to the target, perhaps a trigger there that is ENABLE ALWAYS or REPLICA (`pgbaton check` "
    "names "
    "them): end that and remove the row, then run the same command again; or start anew with pgbaton clone --restart.";

constexpr std::string_view kTriggerHint = "Look for a trigger, rule or policy on the table that swallows writes.";

// Changes that go out together: long enough to hide the round trips, short enough that doing one again costs little.
constexpr std::size_t kChunk = 500;
constexpr std::size_t kLeastChunk = 4;

bool is_rewritten(const Change& change) {
  return change.key_changed() && !std::all_of(change.table->key.begin(), change.table->key.end(), [&](std::size_t i) {
           return change.old_row[i].data == change.new_row[i].data;
         });
}

bool changes_identity_always_key(const Change& change) {
  return std::any_of(change.table->key.begin(), change.table->key.end(),
                     [&](std::size_t i) { return change.table->columns[i].identity_always; });
}

wire::Tuple key_row_of(const Change& change) {
  return change.operation == Operation::remove || is_rewritten(change) ? change.old_row : change.new_row;
}

bool is_any_order(const Change& change) {
  return change.table->delivery == Delivery::any_order && !change.table->key.empty();
}

bool changes_keyless_identity(const Change& change) {
  if (!change.table->key.empty() || change.operation != Operation::update) return false;
  const auto& columns = change.table->columns;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].identity_always && change.old_row[i].data != change.new_row[i].data) return true;
  return false;
}

// Its old key's tombstone is a statement of its own, before the row's: should old and new key be equal for the target,
// the row's entry is what stays. (A delete enters its tombstone into a ledger by itself.)
bool buries_first(const RowSession& session, const Change& change) {
  const bool leaves = change.operation == Operation::remove
                          ? change.table->guard != GuardMode::ledger
                          : change.operation == Operation::update && is_rewritten(change);
  return leaves && leaves_tombstones(session, *change.table);
}

bool is_one_statement(const RowSession& session, const Change& change) {
  return change.operation != Operation::truncate && change.operation != Operation::define && !change.partial_insert &&
         !is_any_order(change) && !changes_keyless_identity(change) && !buries_first(session, change);
}

void check_shape(const Change& change) {
  const std::size_t width = change.table->columns.size();
  const bool needs_new = change.operation == Operation::insert || change.operation == Operation::update;
  const bool needs_old =
      change.operation == Operation::remove || (change.operation == Operation::update && change.table->key.empty());
  auto sendable = [](const wire::Value& v) { return v.kind != wire::ValueKind::binary; };
  const bool fits = (needs_new ? change.new_row.size() == width : true) &&
                    (change.old_row.empty() || change.old_row.size() == width) &&
                    (!needs_old || change.old_row.size() == width) &&
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

void define(RowSession& session, const Change& change) {
  const std::string sql(change.definition);
  try {
    session.connection.exec(sql);
  } catch (const Error& error) {
    throw located(error, change).hint("Run it by hand on the target, changed as it needs, and start again: " + sql);
  }
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

void RowWriter::write_all(std::span<const Change> window) {
  while (!window.empty()) {
    const auto end = std::find_if_not(window.begin(), window.begin() + std::min(window.size(), kChunk),
                                      [this](const Change& change) { return is_one_statement(session_, change); });
    const auto chunk = window.first(static_cast<std::size_t>(end - window.begin()));
    if (chunk.size() >= kLeastChunk && write_chunk(chunk)) {
      window = window.subspan(chunk.size());
      continue;
    }
    const std::size_t singly = std::max(chunk.size(), std::size_t{1});
    for (const Change& change : window.first(singly)) write(change);
    window = window.subspan(singly);
  }
}

// False: nothing of it is written, and something in it needs a look.
bool RowWriter::write_chunk(std::span<const Change> chunk) {
  const WriteCounts before = session_.counts;
  for (const Change& change : chunk) {
    check_shape(change);
    target(change);  // looked up before the pipeline opens
  }
  session_.connection.exec("SAVEPOINT pgbaton_chunk");
  bool exact = true;
  try {
    pg::Pipeline pipeline(session_.connection);
    for (const Change& change : chunk) {
      const Statement one = statement(change);
      pipeline.send(one.sql, one.parameters,
                    [&](const pg::Result& result) { exact = exact && result.affected() == 1; });
    }
    pipeline.run();
  } catch (const Error& error) {
    if (!is_rejection(error.sqlstate())) throw;
    exact = false;
  }
  if (!exact) {
    session_.connection.exec("ROLLBACK TO SAVEPOINT pgbaton_chunk");
    session_.counts = before;
  } else {
    session_.counts.rows_written += static_cast<std::int64_t>(chunk.size());
  }
  session_.connection.exec("RELEASE SAVEPOINT pgbaton_chunk");
  return exact;
}

void RowWriter::write(const Change& change) {
  if (change.partial_insert) return insert_partly(session_, change);
  if (change.operation == Operation::truncate) return write_truncate(session_, change);
  if (change.operation == Operation::define) return define(session_, change);
  check_shape(change);
  if (is_any_order(change)) return any_order_.write(change);
  if (changes_keyless_identity(change)) return replace_keyless(change);
  if (buries_first(session_, change)) bury(session_, change, change.old_row);
  const long long rows = session_.write(change, statement(change));
  if (rows != 1) settle(change, rows);
}

Statement RowWriter::statement(const Change& change) {
  const RowTarget where = target(change);
  const bool keyless = change.table->key.empty();
  if (change.operation == Operation::insert)
    return insert_row(where, change.new_row,
                      change.table->key_is_arbiter && !keyless ? OnConflict::nothing : OnConflict::fail);
  if (change.operation == Operation::remove)
    return keyless ? delete_one_equal_row(where, change.old_row) : delete_row(where, change.old_row);
  if (keyless) return update_one_equal_row(where, change.old_row, change.new_row);
  const bool rewritten = is_rewritten(change);
  if (rewritten && changes_identity_always_key(change)) return replace_row(where, change.old_row, change.new_row);
  return update_row(where, key_row_of(change), change.new_row, rewritten);
}

void RowWriter::settle(const Change& change, long long rows) {
  const bool keyless = change.table->key.empty();
  if (rows > 1) throw rejected(change, fmt::format("{} rows on the target have this key", rows), kConflictHint);
  if (change.operation == Operation::insert) {
    if (!keyless && change.table->key_is_arbiter) return resolve_conflict(change);
    throw rejected(change, "the target took the INSERT but stored no row", kTriggerHint);
  }
  if (keyless && session_.repair_missing) return repair_missing(session_, change, change.old_row);
  if (keyless)
    throw rejected(change, "no row on the target equals the one that the source changed", kMissingHint)
        .sqlstate(kMissingRow);
  explain_untouched(change, key_row_of(change));
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

void RowWriter::explain_untouched(const Change& change, wire::Tuple key_row) {
  const bool updates = change.operation == Operation::update;
  const Found found = find_row(session_, change, key_row);
  if (found == Found::newer) {
    ++session_.counts.stale;
    if (updates && is_rewritten(change)) arrive_at_new_key(session_, change);
    return;
  }
  if (found == Found::missing && is_buried(session_, change, key_row, false)) {
    ++session_.counts.stale;
    return;
  }
  if (found == Found::missing && is_gone(session_, change, key_row)) {
    ++session_.counts.stale;
    if (updates && is_rewritten(change)) arrive_at_new_key(session_, change);
    return;
  }
  if (found == Found::missing && session_.repair_missing) return repair_missing(session_, change, key_row);
  if (found == Found::missing)
    throw rejected(change,
                   fmt::format("the row that the source {} is not on the target", updates ? "updated" : "deleted"),
                   kMissingHint)
        .key(key_text(*change.table, key_row))
        .sqlstate(kMissingRow);
  const auto& columns = change.table->columns;
  const bool identity = std::any_of(columns.begin(), columns.end(), [](const auto& c) { return c.identity_always; });
  if (updates && identity && session_.write(change, replace_row(target(change), key_row, change.new_row)) == 1) return;
  throw rejected(change, "the target took the statement but touched no row", kTriggerHint);
}

// An ALWAYS identity of a keyless table cannot be set: the row goes and comes again.
void RowWriter::replace_keyless(const Change& change) {
  std::vector<wire::Value> row(change.new_row.begin(), change.new_row.end());
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].kind == wire::ValueKind::unchanged) row[i] = change.old_row[i];
  const long long gone = session_.write(change, delete_one_equal_row(target(change), change.old_row));
  if (gone != 1) return settle(change, gone);
  if (session_.write(change, insert_row(target(change), row, OnConflict::fail)) != 1)
    throw rejected(change, "the target took the INSERT but stored no row", kTriggerHint);
}

}  // namespace pgbaton::apply
