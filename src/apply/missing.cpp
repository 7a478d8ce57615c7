#include "missing.hpp"

#include "guard.hpp"
#include "reject.hpp"
#include "row_sql.hpp"
#include "tombstone.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>

#include <algorithm>
#include <vector>

namespace pgbaton::apply {

namespace {

// Of one session: an emptied table must not flood the events; every row is in the log and in the count.
constexpr std::int64_t kMostEvents = 100;

bool is_whole(wire::Tuple row) {
  return std::none_of(row.begin(), row.end(), [](const auto& v) { return v.kind == wire::ValueKind::unchanged; });
}

// Part of the transaction, so that a replay counts no row twice. 0 rows of table_state: no replica's state is around.
void record(RowSession& session, const Change& change, std::string_view what, const std::string& key) {
  const TargetTable& table = *change.table;
  Statement count;
  const std::string replica = count.bind_view(session.replica, "text");
  const std::string schema = count.bind_view(table.name.schema, "text");
  count.sql = fmt::format(
      "UPDATE pgbaton.table_state SET missing_rows = missing_rows + 1 WHERE replica = {} AND schema_name = {} AND "
      "table_name = {}",
      replica, schema, count.bind_view(table.name.name, "text"));
  session.run(change, count);
  if (++session.missing_rows > kMostEvents) return;
  Statement event;
  const std::string who = event.bind_view(session.replica, "text");
  const std::string where = event.bind_view(table.quoted, "text");
  const std::string which = event.bind_own(key, "text");
  const std::string lsn = event.bind_lsn(change.commit_lsn);
  event.sql = fmt::format(
      "INSERT INTO pgbaton.event (replica, kind, detail) SELECT {}, 'missing_row', json_build_object('table', {}, "
      "'key', {}, 'commit_lsn', {}, 'done', {})",
      who, where, which, lsn, event.bind_view(what, "text"));
  session.run(change, event);
}

void write_row(RowSession& session, const Change& change, wire::Tuple row, Lsn guard_lsn, OnConflict on_conflict) {
  const RowTarget target{*change.table, session.targets.scope(*change.table), guard_lsn};
  if (session.write(change, insert_row(target, row, on_conflict)) == 1) return;
  if (on_conflict == OnConflict::overwrite) {
    ++session.counts.stale;
    return;
  }
  throw rejected(change, "the target took the INSERT but stored no row",
                 "Look for a trigger, rule or policy on the table that swallows writes.");
}

std::string gone_key(const Change& change, wire::Tuple key_row) {
  std::string key = change.table->quoted;
  for (const std::size_t i : change.table->key) key.append(1, '\0').append(key_row[i].data);
  return key;
}

// The row under its new key, as of a position above the change. Without a key it could not be found, without a guard
// the changes in flight would be written over another row of the same key.
std::string_view fetch(RowSession& session, const Change& change, OnConflict on_conflict) {
  if (change.table->key.empty() || !guard::is_compared(change.table->guard) || session.row_source == nullptr)
    throw rejected(change,
                   "the row is not on the target, the change does not bring all of its values, and the table "
                   "has no key or no guard under which they could be fetched",
                   "Put the row on the target as the source has it, then run the same command again.");
  const auto fetched = session.row_source->fetch(change, change.new_row);
  if (!fetched.found) {
    std::erase_if(session.gone, [&](const auto& entry) { return entry.second <= change.commit_lsn; });
    session.gone[gone_key(change, change.new_row)] = fetched.lsn;
    return "not on the source any more";
  }
  std::vector<wire::Value> row;
  for (const auto& value : fetched.values)
    row.push_back(value ? wire::Value{wire::ValueKind::text, *value} : wire::Value{});
  write_row(session, change, row, fetched.lsn, on_conflict);
  return "fetched from the source";
}

// What was done, for people.
std::string_view put_right(RowSession& session, const Change& change, OnConflict on_conflict) {
  if (!is_whole(change.new_row)) return fetch(session, change, on_conflict);
  write_row(session, change, change.new_row, change.commit_lsn, on_conflict);
  return "written from the change";
}

}  // namespace

void repair_missing(RowSession& session, const Change& change, wire::Tuple key_row) {
  const bool deletes = change.operation == Operation::remove;
  const std::string key = key_text(*change.table, key_row);
  const std::string_view done = deletes ? "nothing to delete" : put_right(session, change, OnConflict::fail);
  // The delete would have entered it together with the row; other tombstones were made before it.
  if (deletes && change.table->guard == GuardMode::ledger) bury(session, change, key_row);
  record(session, change, done, key);
  log::warning("{}: the row {} that the source {} at {} was not on the target: {}", change.table->quoted, key,
               deletes ? "deleted" : "updated", to_string(change.commit_lsn), done);
}

bool is_gone(const RowSession& session, const Change& change, wire::Tuple key_row) {
  const auto found = session.gone.find(gone_key(change, key_row));
  return found != session.gone.end() && change.commit_lsn < found->second;
}

void insert_partly(RowSession& session, const Change& change) {
  const auto done = fetch(session, change, change.table->key_is_arbiter ? OnConflict::overwrite : OnConflict::fail);
  log::debug("{}: a row that came in without all of its values: {}", change.table->quoted, done);
}

void arrive_at_new_key(RowSession& session, const Change& change) {
  put_right(session, change, change.table->key_is_arbiter ? OnConflict::overwrite : OnConflict::fail);
}

}  // namespace pgbaton::apply
