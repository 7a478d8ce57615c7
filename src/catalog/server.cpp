#include <pgbaton/catalog/server.hpp>

namespace pgbaton::catalog {
namespace {

// rds_replication is how one provider grants what the attribute REPLICATION grants elsewhere.
constexpr const char* kServerQuery = R"(
select current_setting('server_version_num')::int as version_num, current_setting('server_version') as version_text,
       current_database() as database, d.oid::bigint as database_oid, pg_encoding_to_char(d.encoding) as encoding,
       current_user as user_name, r.rolsuper as superuser,
       r.rolsuper or r.rolreplication
         or exists (select from pg_roles p where p.rolname = 'rds_replication' and pg_has_role(p.oid, 'member'))
         as may_replicate,
       has_database_privilege(d.oid, 'CREATE') as may_create,
       pg_is_in_recovery() as in_recovery, current_setting('wal_level') as wal_level,
       current_setting('max_replication_slots')::int as max_slots, current_setting('max_wal_senders')::int as max_senders,
       (select count(*) from pg_replication_slots)::int as used_slots,
       (select count(*) from pg_stat_replication)::int as used_senders,
       has_function_privilege('pg_control_system()', 'execute') as may_read_control,
       has_function_privilege('pg_control_checkpoint()', 'execute') as may_read_checkpoint
  from pg_database d, pg_roles r
 where d.datname = current_database() and r.rolname = current_user)";

// The name of the WAL file being written tells the timeline at once; the control file learns of a promotion only with
// the first checkpoint after it. A standby has no WAL file of its own to name.
constexpr const char* kTimelineQuery =
    "select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int";
constexpr const char* kStandbyTimelineQuery = R"(
select greatest(c.timeline_id, coalesce((select received_tli from pg_stat_wal_receiver), 0))
  from pg_control_checkpoint() c)";

Server read_server(pg::Control& connection) {
  pqxx::nontransaction transaction(connection);
  const auto row = transaction.exec1(kServerQuery);
  Server server;
  server.version_num = row["version_num"].as<int>();
  server.version_text = row["version_text"].as<std::string>();
  server.database = row["database"].as<std::string>();
  server.database_oid = row["database_oid"].as<std::uint32_t>();
  server.encoding = row["encoding"].as<std::string>();
  server.user = row["user_name"].as<std::string>();
  server.superuser = row["superuser"].as<bool>();
  server.may_replicate = row["may_replicate"].as<bool>();
  server.may_create_in_database = row["may_create"].as<bool>();
  server.in_recovery = row["in_recovery"].as<bool>();
  server.wal_level = row["wal_level"].as<std::string>();
  server.max_replication_slots = row["max_slots"].as<int>();
  server.max_wal_senders = row["max_senders"].as<int>();
  server.used_slots = row["used_slots"].as<int>();
  server.used_senders = row["used_senders"].as<int>();
  // Asked apart, because a function without the right to it fails even in a branch that is not taken.
  if (row["may_read_control"].as<bool>()) {
    server.system_identifier =
        transaction.exec1("select system_identifier from pg_control_system()")[0].as<std::uint64_t>();
  }
  if (!server.in_recovery) {
    server.timeline = transaction.exec1(kTimelineQuery)[0].as<std::uint32_t>();
  } else if (row["may_read_checkpoint"].as<bool>()) {
    server.timeline = transaction.exec1(kStandbyTimelineQuery)[0].as<std::uint32_t>();
  }
  return server;
}

constexpr std::uint64_t kPageHeader = 24, kSegmentHeader = 40;

}  // namespace

Server load_server(pg::Control& connection, Side side) {
  return pg::control(side, "reading what the server is", [&] { return read_server(connection); });
}

Lsn current_flush_lsn(pg::Control& connection, Side side) {
  return pg::control(side, "reading the WAL position", [&] {
    pqxx::nontransaction transaction(connection);
    const auto row = transaction.exec1(
        "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end");
    return row[0].is_null() ? Lsn{} : require_lsn(row[0].c_str(), "the server's WAL position");
  });
}

Lsn current_insert_lsn(pg::Control& connection, Side side) {
  return pg::control(side, "reading the WAL position", [&] {
    pqxx::nontransaction transaction(connection);
    // At the start of a page the insert position lies behind the page's header (24 bytes, 40 in a segment's first:
    // XLogBytePosToRecPtr() of xlog.c), which is not written before the next record.
    const auto row = transaction.exec1(
        "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, "
        "current_setting('wal_block_size')::int, "
        "pg_size_bytes(current_setting('wal_segment_size'))");
    if (row[0].is_null()) return Lsn{};
    Lsn insert_lsn = require_lsn(row[0].c_str(), "the server's WAL position");
    const auto in_page = insert_lsn.value % row[1].as<std::uint64_t>();
    const auto in_segment = insert_lsn.value % row[2].as<std::uint64_t>();
    if (in_page == kPageHeader || in_segment == kSegmentHeader) insert_lsn.value -= in_page;
    return insert_lsn;
  });
}

bool may_set_replica_role(pg::Control& connection, Side side) {
  return pg::control(side, "trying session_replication_role", [&] {
    pqxx::work transaction(connection);
    try {
      transaction.exec0("set local session_replication_role = replica");
    } catch (const pqxx::sql_error& error) {
      if (pg::sqlstate_of(error) == "42501") return false;  // the transaction ends with its object
      throw;
    }
    const bool taken = transaction.exec1("show session_replication_role")[0].as<std::string>() == "replica";
    transaction.abort();
    return taken;
  });
}

}  // namespace pgbaton::catalog
