#include "repair.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>

#include "repair_table.hpp"

namespace pgbaton::verify {
namespace {

// A lock on a row to be written, or on the progress row: held by nobody for long while the appliers rest.
// The other bound is for a process that is stopped in the middle: its lock would hold up the appliers.
constexpr const char* kBounds = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '30s'";

class Repair {
 public:
  Repair(const stream::SharedCut& cut, const Options& options, const state::Replica& replica,
         const std::stop_token& stop)
      : cut_(cut),
        stop_(stop),
        source_(options.stream.source, Where::source, cut.source_snapshot(), Deadline::never(), stop),
        target_(options.stream.target, Where::target, cut.target_snapshot(), Deadline::never(), stop),
        writer_(pg::Connection::open(options.stream.target, "repair")),
        replica_role_(replica.replica_role) {
    if (replica_role_) writer_.exec("SET session_replication_role = replica");
    writer_.exec(kBounds);
  }

  std::optional<Repaired> run(const state::Replica& replica, std::int64_t tables_version,
                              std::span<const RepairBatch> batches) {
    writer_.exec("BEGIN ISOLATION LEVEL READ COMMITTED");
    if (!stream::hold_still(writer_, replica, cut_.lsn())) return std::nullopt;
    require_tables(replica, tables_version);
    for (const auto& batch : batches) mend(batch);
    PGBATON_FAILPOINT("repair_before_commit");
    const auto result = writer_.exec("COMMIT");
    if (std::string_view(PQcmdStatus(result.get())) != "COMMIT")
      throw Error(ErrorKind::failed, "the target rolled the repair back at COMMIT").side(Side::target);
    return std::move(done_);
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

  // Constraints that can wait do so until the table is done, and no longer: what they refuse is this table's failure.
  void mend(const RepairBatch& batch) {
    writer_.exec("SAVEPOINT pgbaton_table");
    try {
      if (!replica_role_) writer_.exec("SET CONSTRAINTS ALL DEFERRED");
      RepairTable table(*batch.plan, cut_.lsn(), source_, target_, writer_);
      const auto rows = table.mend(batch);
      if (!replica_role_) writer_.exec("SET CONSTRAINTS ALL IMMEDIATE");
      writer_.exec("RELEASE SAVEPOINT pgbaton_table");
      done_.rows += rows;
      for (auto& error : table.take_refused()) done_.failures.push_back({batch.plan, std::move(error), false});
    } catch (const Error& error) {
      const bool alive = PQstatus(writer_.get()) == CONNECTION_OK && source_.alive() && target_.alive();
      if (stop_.stop_requested() || !alive) throw;
      writer_.exec("ROLLBACK TO SAVEPOINT pgbaton_table; RELEASE SAVEPOINT pgbaton_table");
      done_.failures.push_back(explain_failure(batch, error));
    }
  }

  const stream::SharedCut& cut_;
  const std::stop_token& stop_;
  SideSession source_, target_;
  pg::Connection writer_;
  const bool replica_role_;
  Repaired done_;
};

}  // namespace

std::optional<Repaired> repair_at(const stream::SharedCut& cut, const Options& options, const state::Replica& replica,
                                  std::int64_t tables_version, std::span<const RepairBatch> batches,
                                  const std::stop_token& stop) {
  return Repair(cut, options, replica, stop).run(replica, tables_version, batches);
}

}  // namespace pgbaton::verify
