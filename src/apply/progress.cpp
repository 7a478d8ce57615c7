#include "progress.hpp"

#include "statement.hpp"

#include <fmt/format.h>

namespace pgbaton::apply {

namespace {

std::string match_row(Statement& statement, const ApplierOptions& options) {
  const std::string replica = statement.bind_view(options.replica, "text");
  const std::string generation = statement.bind_view(options.generation, "text");
  const std::string number = statement.bind_own(std::to_string(options.applier_number), "int");
  const std::string count = statement.bind_own(std::to_string(options.applier_count), "int");
  return fmt::format("replica = {} AND generation = {} AND applier_number = {} AND applier_count = {}", replica,
                     generation, number, count);
}

// Why no row took the step. Read after the fact, so it only words the message; nothing is decided by it.
[[noreturn]] void explain(pg::Connection& connection, const ApplierOptions& options, const ProgressStep& step) {
  Statement look;
  look.sql = "SELECT epoch, applied_lsn, tables_version FROM pgbaton.progress WHERE " + match_row(look, options);
  const pg::Result found = connection.exec(look.sql, look.parameters);
  const std::string mine = std::to_string(options.epoch);
  if (found.rows() == 1 && found.value(0, 0) == mine && found.value(0, 2) != std::to_string(options.tables_version))
    throw Error(ErrorKind::failed, "which tables are to be applied from where has changed (resync)")
        .side(Side::target)
        .sqlstate(kTablesChanged)
        .action(Action::retry)
        .lsn(step.applied_lsn)
        .hint("Nothing of this batch was committed; it is applied again by the new rules.");
  if (found.rows() == 1 && found.value(0, 0) == mine)
    throw Error(ErrorKind::failed, fmt::format("progress would go backward, from {}", found.value(0, 1)))
        .side(Side::target)
        .action(Action::bug)
        .lsn(step.applied_lsn)
        .hint("This is a fault in pgbaton: please report it. Nothing was committed.");
  throw Error(ErrorKind::held_elsewhere,
              found.rows() == 1 ? fmt::format("fenced: another process writes this replica (epoch {}, ours was {})",
                                              found.value(0, 0), mine)
                                : "fenced: this replica's progress row is gone")
      .side(Side::target)
      .lsn(step.applied_lsn)
      .hint("Nothing was committed here. See 'pgbaton status' for who holds the replica now.");
}

}  // namespace

void store_progress(pg::Connection& connection, const ApplierOptions& options, const ProgressStep& step) {
  Statement update;
  const std::string match = match_row(update, options);
  const std::string epoch = update.bind_own(std::to_string(options.epoch), "bigint");
  const std::string version = update.bind_own(std::to_string(options.tables_version), "bigint");
  const std::string lsn = update.bind_lsn(step.applied_lsn);
  const std::string transactions = update.bind_own(std::to_string(step.transactions), "bigint");
  const std::string changes = update.bind_own(std::to_string(step.changes), "bigint");
  std::string commit_time;
  if (step.source_commit_time != 0)
    commit_time =
        fmt::format("source_commit_time = timestamptz '2000-01-01 00:00:00+00' + {} * interval '1 microsecond', ",
                    update.bind_own(std::to_string(step.source_commit_time), "bigint"));
  update.sql = fmt::format(
      "UPDATE pgbaton.progress SET applied_lsn = {}, transactions = transactions + {}, changes = changes + {}, {}"
      "updated_at = clock_timestamp() WHERE {} AND epoch = {} AND tables_version = {} AND applied_lsn <= {}",
      lsn, transactions, changes, commit_time, match, epoch, version, lsn);
  if (connection.exec(update.sql, update.parameters).affected() != 1) explain(connection, options, step);
}

}  // namespace pgbaton::apply
