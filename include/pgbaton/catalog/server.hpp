// What a server is. Read only; never changes anything. `side` only says where in errors; no transaction may be open on
// the connection.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <string>

namespace pgbaton::catalog {

struct Server {
  int version_num = 0;  // 150004
  int major() const { return version_num / 10000; }
  std::string version_text;
  std::uint64_t system_identifier = 0;  // pg_control_system(); 0 when the role may not read it
  std::uint32_t timeline = 0;
  std::string database;
  std::uint32_t database_oid = 0;
  std::string encoding;  // of the database
  std::string user;
  bool superuser = false, may_replicate = false, may_create_in_database = false;
  bool in_recovery = false;
  std::string wal_level;
  int max_replication_slots = 0, max_wal_senders = 0, used_slots = 0, used_senders = 0;
};

Server load_server(pg::Control& connection, Side side = Side::source);
// pg_current_wal_flush_lsn(), or the replay position in recovery: the position to wait for (DESIGN 6).
Lsn current_flush_lsn(pg::Control& connection, Side side = Side::source);
// Behind everything that anybody was told is committed, also with synchronous_commit = off, which may be flushed a
// moment later. For who may not write (else source::emit_barrier): the stream reaches it when the server has flushed
// it, after an open transaction's last record within 15 s (LOG_SNAPSHOT_INTERVAL_MS of bgwriter.c).
Lsn current_insert_lsn(pg::Control& connection, Side side = Side::source);
// Whether SET session_replication_role = replica works here (tried in a transaction and undone).
bool may_set_replica_role(pg::Control& connection, Side side = Side::target);

}  // namespace pgbaton::catalog
