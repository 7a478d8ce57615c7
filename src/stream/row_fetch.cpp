#include "row_fetch.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>

#include <vector>

namespace pgbaton::stream {
namespace {

// Beside those of the copy's boundaries, which begin at 1 and end what they find under their names.
constexpr int kFirstSlotNumber = 101, kSlotNumbers = 20;
// Short, because the stream stands meanwhile: an open write transaction on the source is waited for again and again,
// with the stream's own retries and messages.
constexpr Milliseconds kSlotWait{20'000};

std::string free_slot(const pg::Endpoint& source, const ReplicaNames& names) {
  auto control = pg::open_control(source, "repair");
  for (int n = kFirstSlotNumber; n < kFirstSlotNumber + kSlotNumbers; ++n)
    if (!source::load_slot(*control, names.temporary_slot(n))) return names.temporary_slot(n);
  throw Error(ErrorKind::failed, "no name is free for the temporary slot of a repair")
      .side(Side::source)
      .action(Action::retry);
}

Error not_found(const apply::Change& change, std::string_view message) {
  return Error(ErrorKind::rejected, std::string(message))
      .side(Side::source)
      .table(change.table->quoted)
      .lsn(change.commit_lsn)
      .hint("Put the row on the target as the source has it, then run the same command again.");
}

}  // namespace

void RowFetch::take_snapshot_above(Lsn commit_lsn) {
  if (snapshot_ && reader_ && snapshot_->consistent_point() > commit_lsn) return;
  release();
  try {
    snapshot_ =
        source::SlotSnapshot::create(source_, {free_slot(source_, ReplicaNames(replica_.name)), true, kSlotWait}, {});
    reader_ = source::open_snapshot_worker(source_, snapshot_->snapshot_id(), "repair");
  } catch (Error& error) {
    release();
    if (error.kind() == ErrorKind::timed_out) error.action(Action::retry);
    throw;
  }
}

// " AND (condition)" of our publications; a row that it hides is not on the target.
std::string RowFetch::row_filter(std::uint32_t table) {
  constexpr int kFirstVersion = 150000;
  if (reader_->server_version() < kFirstVersion) return {};
  const auto filters = reader_->exec(fmt::format(
      "SELECT pg_catalog.pg_get_expr(r.prqual, r.prrelid) FROM pg_catalog.pg_publication_rel r "
      "JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = {} AND r.prqual IS NOT NULL AND "
      "p.pubname IN ({}, {})",
      table, quote_literal(replica_.publication), quote_literal(replica_.publication_inserts)));
  std::string condition;
  for (int i = 0; i < filters.rows(); ++i) condition += " AND (" + filters.text(i, 0) + ")";
  return condition;
}

apply::FetchedRow RowFetch::fetch(const apply::Change& change, wire::Tuple key_row) {
  take_snapshot_above(change.commit_lsn);
  const auto& table = *change.table;
  // By its oid: it may have been renamed since.
  const auto name = reader_->exec(fmt::format(
      "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
      "WHERE c.oid = {}",
      table.source_oid));
  if (name.rows() == 0)
    throw not_found(change, "the row is missing on the target, and its table is gone on the source");
  std::string columns, match;
  std::vector<pg::Parameter> parameters;
  for (const auto& column : table.columns) columns += (columns.empty() ? "" : ", ") + column.quoted;
  for (const auto i : table.key) {
    parameters.emplace_back(key_row[i].data);
    match += fmt::format("{}{} = ${}::{}", match.empty() ? "" : " AND ", table.columns[i].quoted, parameters.size(),
                         table.columns[i].cast_type);
  }
  match += row_filter(table.source_oid);
  const auto rows = reader_->exec(fmt::format("SELECT {} FROM ONLY {} WHERE {}", columns,
                                              QualifiedName{name.text(0, 0), name.text(0, 1)}.quoted(), match),
                                  parameters);
  apply::FetchedRow row;
  row.lsn = snapshot_->consistent_point();
  if (rows.rows() == 0) return row;
  if (rows.rows() > 1) throw not_found(change, "several rows of the source have the key that is missing on the target");
  row.found = true;
  for (int i = 0; i < rows.columns(); ++i)
    row.values.push_back(rows.is_null(0, i) ? std::nullopt : std::optional(rows.text(0, i)));
  return row;
}

void RowFetch::release() noexcept {
  reader_.reset();
  snapshot_.reset();
}

}  // namespace pgbaton::stream
