// Logical slots and the snapshots they export: the first half of the handoff (DESIGN 3.3 and 3.4).
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/control.hpp>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::source {

// What keeps a slot from being created: a transaction that must end first.
struct Blocker {
  int pid = 0;                                                 // 0 for a prepared transaction
  std::string gid;                                             // of a prepared transaction
  std::string database, user, application_name, state, query;  // query shortened to 100 characters
  double age_seconds = 0;
};
std::vector<Blocker> load_blockers(pg::Control& source);
std::string describe(const Blocker& blocker);

struct SlotInfo {
  std::string name, plugin, database, wal_status, invalidation_reason;
  bool active = false, temporary = false;
  bool failover = false, synced = false;  // 17+: to be synchronized to standbys; came from the primary that way
  int active_pid = 0;
  Lsn confirmed_flush_lsn, restart_lsn;
  std::int64_t held_bytes = 0;   // WAL between restart_lsn and now
  std::int64_t safe_bytes = -1;  // 13+: WAL that may still be written before the slot can be lost; -1: no limit is set
};
std::optional<SlotInfo> load_slot(pg::Control& source, const std::string& name);

struct SlotRequest {
  std::string name;
  bool temporary = false;
  Milliseconds wait{60'000};  // --slot-wait: for the whole, retries of "snapshot too large" and of settling included
  bool failover = false;      // --slot-failover: 17+, not for a temporary slot
};

// A snapshot that came from a slot, imported by the holder, settled, and re-exported; alive as long as this object.
// Workers and pg_dump import `snapshot_id()` and nothing else. The replication connection stays open (a temporary slot
// lives exactly as long as it does).
class SlotSnapshot {
 public:
  // Creates the slot and takes the snapshot. On failure, stop or time-out nothing stays behind: neither slot nor
  // walsender. Errors: timed_out naming the blockers; preflight when a slot of this name exists.
  static SlotSnapshot create(const pg::Endpoint& source, const SlotRequest& request, const std::stop_token& stop);

  Lsn consistent_point() const { return consistent_point_; }
  const std::string& snapshot_id() const { return snapshot_id_; }
  // Whether the holder's session is still there, so that its snapshot can still be imported. Any thread.
  bool alive() const;

 private:
  SlotSnapshot(pg::Connection replication, pg::Connection holder, Lsn consistent_point, std::string snapshot_id)
      : replication_(std::move(replication)),
        holder_(std::move(holder)),
        consistent_point_(consistent_point),
        snapshot_id_(std::move(snapshot_id)) {}
  pg::Connection replication_, holder_;
  Lsn consistent_point_;
  std::string snapshot_id_;
};

// A connection inside BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY on the given snapshot.
// Error(failed, action retry) with "snapshot gone" when is_snapshot_gone().
pg::Connection open_snapshot_worker(const pg::Endpoint& source, const std::string& snapshot_id, std::string_view role);

// For --take-over: ends the session that reads the slot and waits until it has let go. False when nobody did.
bool release_slot(pg::Control& source, const std::string& name);
// Ends sessions of this replica that were to create a slot and were left behind: a client that just goes away leaves
// the server at work, and a slot that does not exist yet may do so a moment later. For the holder of the lease.
void end_slot_creators(pg::Control& source, const std::string& replica_name);
// Drops a slot; terminates its walsender first when `terminate`. False when this database has none of that name.
bool drop_slot(pg::Control& source, const std::string& name, bool terminate);

// Commits a transactional message, so that an idle source has something to send (14+) and what others committed before
// is flushed, and returns a position behind all of it; without the right to, current_insert_lsn(). The stream has
// passed everything before once it reports a position at or above it.
Lsn emit_barrier(pg::Control& source);

}  // namespace pgbaton::source
