// The writer's lease: a session-level advisory lock on the target, on a connection of its own, plus the epoch.
//
// The server frees the lock when the process dies, at once after kill -9. A stopped process keeps it until somebody
// takes over; the epoch then makes sure that nothing of the old one can commit: every apply transaction ends with an
// UPDATE of the progress row WHERE epoch = mine, and zero rows mean fenced.
#pragma once
#include <pgbaton/base/time.hpp>

#include <memory>
#include <pgbaton/state/store.hpp>

namespace pgbaton::state {

// The connection role of the stream's apply session.
inline constexpr std::string_view kApplyRole = "apply";

class Lease {
 public:
  // Waits at most `patience` (5 s by contract), then Error(held_elsewhere) naming host, pid and since when.
  // take_over terminates, when somebody holds the lease, every backend of the replica on this database
  // (application_name pgbaton/<name>/…) but the lease's own: acquire the lease before opening other connections. Needs
  // an installed schema.
  static Lease acquire(const pg::Endpoint& target, const std::string& replica_name, bool take_over,
                       Milliseconds patience = Milliseconds(5000));
  // Whether somebody holds it now; asks only.
  static bool held(pg::Control& connection, const std::string& replica_name);

  // Raises the epoch of an existing replica row and writes host, pid and since; returns the new epoch. The progress
  // rows follow in the same transaction, last_error is cleared, requests that an earlier writer took and left are
  // closed. Backends that a dead writer left behind in a write transaction are ended first; those of commands that work
  // beside a writer (their roles stand in lease.cpp: verify, switchover, ...) are not. Call it once after acquire()
  // (or after the row was inserted). No replica row: Error(usage).
  std::int64_t begin_term();

  // Throws Error(held_elsewhere) when another writer's epoch is in force, or the replica is gone. On a connection of
  // its own, from any thread; says nothing when the target does not answer.
  void require_term() const;
  // Throws Error(held_elsewhere) when the lock connection is gone and another writer's epoch is in force;
  // Error(failed, retry) when only the connection is gone. Cheap; called between batches at most every second.
  void check();
  // After a lost connection, before progress is read: makes sure of the lock, and that the epoch is still ours (else
  // Error(held_elsewhere)), and ends what the former apply session (role kApplyRole) may have open. A target in
  // recovery: Error(failed, retry).
  void renew();
  std::int64_t epoch() const { return epoch_; }  // 0 before begin_term()
  pg::Control& connection() { return *connection_; }

 private:
  Lease(pg::Endpoint target, std::string name, std::unique_ptr<pg::Control> connection)
      : target_(std::move(target)), name_(std::move(name)), connection_(std::move(connection)) {}
  bool still_held();
  void reconnect();
  pg::Endpoint target_;
  std::string name_;
  std::unique_ptr<pg::Control> connection_;
  std::int64_t epoch_ = 0;
};

}  // namespace pgbaton::state
