// Settings that end a slot, a session or a dump too early, connections that may run out, and what a copy will cost.
#include <fmt/format.h>
#include <pgbaton/base/size.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/base/words.hpp>

#include <algorithm>
#include <map>

#include "check_parts.hpp"
#include "estimate.hpp"

namespace pgbaton::snapshot {

namespace {

// Beside one connection per copy job: holder, replication, publication, lease, housekeeping, a look at the WAL held.
constexpr int kOtherConnections = 6;

struct Setting {
  std::int64_t number = 0;  // in the server's own unit
  std::string text;         // with its unit, as SHOW says it
};
using Settings = std::map<std::string, Setting>;

// Those that this major knows.
Settings load_settings(pg::Control& connection, const std::vector<std::string>& names) {
  pqxx::nontransaction tx(connection);
  Settings settings;
  for (auto row : tx.exec_params(
           "select name, setting::bigint, current_setting(name) from pg_settings where name = any($1::text[])",
           text_array(names)))
    settings[row[0].as<std::string>()] = {row[1].as<std::int64_t>(), row[2].as<std::string>()};
  return settings;
}

std::int64_t number(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? 0 : found->second.number;
}

void check_wal_keep(const Settings& settings, Findings& findings) {
  const auto found = settings.find("max_slot_wal_keep_size");
  if (found == settings.end() || found->second.number < 0)
    return findings.note("source.wal_keep", "max_slot_wal_keep_size",
                         "no limit: the slot keeps WAL as long as it is behind; watch `pgbaton status`");
  findings.warning("source.wal_keep", "max_slot_wal_keep_size",
                   fmt::format("a slot that falls behind by more than {} is lost and the replica must be built anew",
                               found->second.text),
                   "ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf(); for the time of the clone, "
                   "or a value above the WAL written in that time.");
}

// 18 and newer. A copy of hours reads nothing from its slot.
void check_idle_slot(const Settings& settings, Findings& findings) {
  const auto found = settings.find("idle_replication_slot_timeout");
  if (found == settings.end() || found->second.number == 0) return;
  findings.warning(
      "source.idle_slot_timeout", "idle_replication_slot_timeout",
      fmt::format("a slot that nobody reads for {} is lost: during a longer copy, or while no `follow` runs",
                  found->second.text),
      "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();");
}

void check_sender_timeout(const Settings& settings, Findings& findings) {
  constexpr std::int64_t kShort = 10'000;
  const auto timeout = number(settings, "wal_sender_timeout");
  if (timeout == 0)
    findings.note("source.sender_timeout", "wal_sender_timeout",
                  "switched off: a connection that died without a word keeps its slot in use until TCP gives up");
  else if (timeout < kShort)
    findings.warning("source.sender_timeout", "wal_sender_timeout",
                     fmt::format("the stream is cut after {} without an answer: a short pause of the network is enough",
                                 settings.at("wal_sender_timeout").text),
                     "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();");
}

// Time-outs set for the role or the database. Our own sessions switch them off, others of the same role do not.
void check_timeouts(const pg::Endpoint& endpoint, pg::Control& connection, Findings& findings) {
  pqxx::nontransaction tx(connection);
  auto rows = tx.exec(
      "select distinct c from pg_db_role_setting s, unnest(s.setconfig) c where c like '%\\_timeout=%' "
      "and s.setdatabase in (0, (select oid from pg_database where datname = current_database())) "
      "and s.setrole in (0, (select oid from pg_roles where rolname = current_user)) order by 1");
  std::vector<std::string> set;
  for (auto row : rows) set.push_back(row[0].as<std::string>());
  if (set.empty()) return;
  findings.note(fmt::format("{}.timeouts", to_string(endpoint.side)), first_few(set),
                "set for this role or database; the sessions of pgbaton switch them off for themselves");
}

void check_connections(Side side, CheckSide& at, int needed, Findings& findings) {
  const auto settings =
      load_settings(*at.connection, {"max_connections", "superuser_reserved_connections", "reserved_connections"});
  pqxx::nontransaction tx(*at.connection);
  auto row = tx.exec1(
      "select (select coalesce(sum(numbackends), 0) from pg_stat_database)::bigint, r.rolconnlimit, d.datconnlimit, "
      "(select numbackends from pg_stat_database where datname = current_database())::bigint "
      "from pg_roles r, pg_database d where r.rolname = current_user and d.datname = current_database()");
  auto free = number(settings, "max_connections") - row[0].as<std::int64_t>();
  std::string limit = "max_connections";
  std::string remedy = fmt::format("ALTER SYSTEM SET max_connections = {}; then restart; or a smaller --jobs.",
                                   number(settings, "max_connections") + needed);
  if (!at.server.superuser) {
    free -= number(settings, "superuser_reserved_connections") + number(settings, "reserved_connections");
    if (auto role = row[1].as<std::int64_t>(); role >= 0 && role < free) {
      free = role;
      limit = "CONNECTION LIMIT of role " + quote_identifier(at.server.user);
      remedy = fmt::format("ALTER ROLE {} CONNECTION LIMIT -1; or a smaller --jobs.", quote_identifier(at.server.user));
    }
    if (auto database = row[2].as<std::int64_t>(); database >= 0 && database - row[3].as<std::int64_t>() < free) {
      free = database - row[3].as<std::int64_t>();
      limit = "CONNECTION LIMIT of database " + quote_identifier(at.server.database);
      remedy = fmt::format("ALTER DATABASE {} CONNECTION LIMIT -1; or a smaller --jobs.",
                           quote_identifier(at.server.database));
    }
  }
  if (free < needed)
    findings.warning(fmt::format("{}.connections", to_string(side)), limit,
                     fmt::format("about {} free, a clone opens up to {}",
                                 counted(std::max<std::int64_t>(free, 0), "connection is", "connections are"), needed),
                     remedy);
}

// pg_dump locks all tables in one transaction.
void check_locks(pg::Control& source, const TablePlan& plan, Findings& findings) {
  const auto settings =
      load_settings(source, {"max_locks_per_transaction", "max_connections", "max_prepared_transactions"});
  const auto per_transaction = number(settings, "max_locks_per_transaction");
  const auto room =
      per_transaction * (number(settings, "max_connections") + number(settings, "max_prepared_transactions"));
  const auto tables = static_cast<std::int64_t>(plan.jobs.size());
  if (tables > room)
    findings.warning("source.locks", "max_locks_per_transaction",
                     fmt::format("pg_dump locks {} tables at once, the lock table is made for {}", tables, room),
                     fmt::format("ALTER SYSTEM SET max_locks_per_transaction = {}; then restart the source.",
                                 per_transaction * (tables / room + 1)));
}

}  // namespace

void check_source_settings(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings) {
  const auto settings = load_settings(
      *source.connection, {"max_slot_wal_keep_size", "idle_replication_slot_timeout", "wal_sender_timeout"});
  check_wal_keep(settings, findings);
  check_idle_slot(settings, findings);
  check_sender_timeout(settings, findings);
  check_timeouts(options.clone.source, *source.connection, findings);
  check_connections(Side::source, source, options.clone.jobs + kOtherConnections, findings);
  check_locks(*source.connection, plan, findings);
}

void check_target_settings(const CheckOptions& options, CheckSide& target, Findings& findings) {
  check_timeouts(options.clone.target, *target.connection, findings);
  check_connections(Side::target, target, options.clone.jobs + options.clone.index_jobs + kOtherConnections, findings);
  const auto settings = load_settings(*target.connection, {"max_worker_processes", "max_parallel_maintenance_workers"});
  const auto workers =
      std::min(number(settings, "max_worker_processes"), number(settings, "max_parallel_maintenance_workers"));
  if (workers == 0)
    findings.note("target.workers", "max_parallel_maintenance_workers",
                  "no worker may help: each index is built by one process");
}

void check_estimate(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings) {
  const auto estimate = estimate_copy(*source.connection, plan, options.clone);
  pqxx::nontransaction tx(*source.connection);
  auto database = tx.exec1("select pg_database_size(current_database())")[0].as<std::uint64_t>();
  findings.note("source.estimate", source.server.database,
                fmt::format("{} with {} of rows and about {} of indexes (whole database {}); the copy takes "
                            "about {}, the indexes about {}; less where both overlap",
                            counted(static_cast<std::int64_t>(estimate.tables), "table"),
                            format_size(estimate.table_bytes), format_size(estimate.index_bytes), format_size(database),
                            format_duration(estimate.copy_time), format_duration(estimate.index_time)));
  findings.note("target.disk", "disk",
                fmt::format("the target needs about {} and room for its WAL, the source room for the WAL of that time; "
                            "SQL does not show what is free",
                            format_size(estimate.table_bytes + estimate.index_bytes)));
}

}  // namespace pgbaton::snapshot
