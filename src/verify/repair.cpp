#include "repair.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/pg/sqlstate.hpp>

#include <algorithm>

#include "drill.hpp"
#include "repair_sql.hpp"

namespace pgbaton::verify {
namespace {

// A lock on a row to be written, or on the progress row: held by nobody for long while the appliers rest.
// The other bound is for a process that is stopped in the middle: its lock would hold up the appliers.
constexpr const char* kBounds = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '30s'";

using ByKey = std::map<RowTexts, std::vector<RowTexts>>;

ByKey read_rows(SideSession& session, const TablePlan& plan, const std::vector<RowTexts>& keys) {
  ByKey result;
  const auto rows = session.exec(select_rows(plan, session.where(), keys));
  for (int i = 0; i < rows.rows(); ++i) {
    RowTexts row, key;
    for (int c = 0; c < rows.columns(); ++c)
      row.push_back(rows.is_null(i, c) ? std::nullopt : std::optional(rows.text(i, c)));
    for (const auto k : plan.key) key.push_back(row[k]);
    result[key].push_back(std::move(row));
  }
  return result;
}

class Repair {
 public:
  Repair(const stream::SharedCut& cut, const Options& options, const state::Replica& replica,
         const std::stop_token& stop)
      : cut_(cut),
        source_(options.stream.source, Where::source, cut.source_snapshot(), Deadline::never(), stop),
        target_(options.stream.target, Where::target, cut.target_snapshot(), Deadline::never(), stop),
        writer_(pg::Connection::open(options.stream.target, "repair")) {
    if (replica.replica_role) writer_.exec("SET session_replication_role = replica");
    writer_.exec(kBounds);
  }

  std::optional<std::int64_t> run(const state::Replica& replica, std::int64_t tables_version,
                                  std::span<const RepairBatch> batches) {
    writer_.exec("BEGIN ISOLATION LEVEL READ COMMITTED");
    if (!stream::hold_still(writer_, replica, cut_.lsn())) return std::nullopt;
    require_tables(replica, tables_version);
    std::int64_t rows = 0;
    for (const auto& batch : batches) rows += mend(batch);
    PGBATON_FAILPOINT("repair_before_commit");
    const auto result = writer_.exec("COMMIT");
    if (std::string_view(PQcmdStatus(result.get())) != "COMMIT")
      throw Error(ErrorKind::failed, "the target rolled the repair back at COMMIT").side(Side::target);
    return rows;
  }

 private:
  void require_tables(const state::Replica& replica, std::int64_t tables_version) {
    const auto rows =
        writer_.exec(fmt::format("SELECT tables_version FROM pgbaton.progress WHERE replica = {} AND generation = {}",
                                 quote_literal(replica.name), quote_literal(replica.generation)));
    if (rows.rows() > 0 && rows.text(0, 0) == std::to_string(tables_version)) return;
    throw Error(ErrorKind::failed, "tables of the replica are being copied again, or were just now (resync)")
        .side(Side::target)
        .action(Action::retry)
        .hint("Run the same command again.");
  }

  std::int64_t mend(const RepairBatch& batch) try {
    return batch.plan->key.empty() ? mend_keyless(batch) : mend_keyed(batch);
  } catch (Error& error) {
    if (error.table().empty()) error.table(batch.plan->name.quoted());
    if (error.side() != Side::target || !pg::is_data_error(error.sqlstate())) throw;
    throw Error(ErrorKind::rejected, "the target does not accept a row of the source: " + error.message())
        .side(Side::target)
        .sqlstate(error.sqlstate())
        .table(error.table())
        .hint("A row of another key stands in its way, or the target has a rule of its own: see which, and mend it.");
  }

  void require(long long touched, std::size_t due) const {
    if (touched == static_cast<long long>(due)) return;
    throw Error(ErrorKind::rejected, fmt::format("a repair of {} rows touched {}", due, touched))
        .side(Side::target)
        .hint("Look for a trigger, rule or policy on the table that swallows writes.");
  }

  std::int64_t mend_keyed(const RepairBatch& batch) {
    const auto& plan = *batch.plan;
    std::vector<RowTexts> keys;
    for (const auto& difference : batch.differences) keys.push_back(difference.key);
    if (!source_.enter(plan) || !target_.enter(plan)) throw moved();
    const auto here = read_rows(source_, plan, keys), there = read_rows(target_, plan, keys);
    source_.leave();
    target_.leave();

    std::vector<RowTexts> remove, insert, update;
    for (const auto& key : keys) {
      const auto wanted = here.find(key), found = there.find(key);
      if (wanted != here.end() && found != there.end() && wanted->second == found->second) continue;
      const bool one_each = wanted != here.end() && found != there.end() && found->second.size() == 1;
      if (one_each && plan.target_has_more_columns) {
        update.push_back(wanted->second.front());
        continue;
      }
      remove.push_back(key);
      if (wanted != here.end()) insert.push_back(wanted->second.front());
    }
    // All that goes first, so that unique values may change places.
    if (!remove.empty()) writer_.exec(delete_keys(plan, remove));
    for (const auto& row : update) require(writer_.exec(update_row(plan, row, cut_.lsn())).affected(), 1);
    if (!insert.empty()) require(writer_.exec(insert_rows(plan, insert, cut_.lsn())).affected(), insert.size());
    return static_cast<std::int64_t>(remove.size() + update.size());
  }

  std::int64_t mend_keyless(const RepairBatch& batch) {
    const auto& plan = *batch.plan;
    std::vector<std::int64_t> hashes;
    for (const auto& difference : batch.differences) hashes.push_back(difference.key_hash);
    std::vector<RowTexts> insert;
    std::map<std::int64_t, std::int64_t> remove;
    std::int64_t removed = 0;
    const bool same = find_differences(plan, source_, target_, with_key_hashes(hashes), [&](Difference found) {
      if (found.kind == Kind::missing) {
        insert.insert(insert.end(), static_cast<std::size_t>(found.count), found.key);
      } else {
        remove[found.key_hash] += found.count;
        removed += found.count;
      }
    });
    if (!same) throw moved();
    if (!remove.empty())
      require(writer_.exec(delete_copies(plan, remove)).affected(), static_cast<std::size_t>(removed));
    if (!insert.empty()) require(writer_.exec(insert_rows(plan, insert, cut_.lsn())).affected(), insert.size());
    return removed + static_cast<std::int64_t>(insert.size());
  }

  static Error moved() {
    return Error(ErrorKind::failed, "the table was rewritten or dropped while it was to be repaired")
        .action(Action::retry)
        .hint("Run the same command again.");
  }

  const stream::SharedCut& cut_;
  SideSession source_, target_;
  pg::Connection writer_;
};

}  // namespace

std::optional<std::int64_t> repair_at(const stream::SharedCut& cut, const Options& options,
                                      const state::Replica& replica, std::int64_t tables_version,
                                      std::span<const RepairBatch> batches, const std::stop_token& stop) {
  return Repair(cut, options, replica, stop).run(replica, tables_version, batches);
}

}  // namespace pgbaton::verify
