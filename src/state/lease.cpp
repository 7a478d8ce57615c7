// The lease is the advisory lock of lock_key("pgbaton:" + name), held by a session. What it protects is enforced by the
// epoch: the lock says who may begin a term, the epoch says whose writes count.
//
//   A holds the lock, epoch 4, and is stopped (SIGSTOP)        pgbaton.replica.epoch = 4
//   B --take-over: ends A's backends, gets the lock, term 5    replica.epoch = 5, progress.epoch = 5
//   A wakes up, reconnects its applier, … WHERE epoch = 4      0 rows: fenced, rolled back, exit 7
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/writable.hpp>

#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <thread>

#include "lock_key.hpp"

namespace pgbaton::state {

namespace {

constexpr Milliseconds kPoll{100};

std::int64_t key_of(const std::string& name) {
  return lock_key("pgbaton:" + name);
}

// Rows of pg_locks for a bigint advisory lock: high half in classid, low half in objid, 1 in objsubid.
std::string holder_condition(const std::string& name) {
  auto key = static_cast<std::uint64_t>(key_of(name));
  return fmt::format(
      "l.locktype = 'advisory' and l.granted and l.classid = {} and l.objid = {} and l.objsubid = 1 and "
      "l.database = (select oid from pg_catalog.pg_database where datname = current_database())",
      key >> 32, key & 0xffffffffu);
}

// Backends of the replica on this database other than the asking one. starts_with() takes no wildcards.
std::string replica_backends(const std::string& name) {
  return fmt::format(
      "from pg_catalog.pg_stat_activity a where a.datname = current_database() and a.pid <> pg_backend_pid() and "
      "starts_with(a.application_name, {})",
      quote_literal("pgbaton/" + name + "/"));
}

bool try_lock(pg::Control& connection, const std::string& name) {
  pqxx::nontransaction tx(connection);
  return tx.exec1(fmt::format("select pg_try_advisory_lock({})", key_of(name)))[0].as<bool>();
}

bool wait_for_lock(pg::Control& connection, const std::string& name, Milliseconds patience) {
  auto deadline = Deadline::after(patience);
  while (!try_lock(connection, name)) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(deadline.left(kPoll));
  }
  return true;
}

// "host db7, pid 4711, since …": from the replica row if its writer's backend is the one that holds the lock, else what
// the server knows about that backend (a replica being created has no row yet).
std::string describe_holder(pg::Control& connection, const std::string& name) {
  pqxx::nontransaction tx(connection);
  auto holder = tx.exec(
      "select l.pid, coalesce(a.client_hostname, host(a.client_addr), 'the target itself') as host, "
      "a.backend_start::timestamptz(0)::text as since from pg_catalog.pg_locks l "
      "join pg_catalog.pg_stat_activity a on a.pid = l.pid where " +
      holder_condition(name));
  if (holder.empty()) return "somebody who left this moment";
  auto backend_pid = holder[0]["pid"].as<int>();
  auto row = tx.exec_params(
      "select writer_host, writer_pid, to_char(writer_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"') as "
      "since from pgbaton.replica "
      "where name = $1 and writer_backend_pid = $2",
      name, backend_pid);
  if (!row.empty())
    return fmt::format("host {}, pid {}, since {}", row[0]["writer_host"].c_str(), row[0]["writer_pid"].c_str(),
                       row[0]["since"].c_str());
  return fmt::format("backend pid {} on the target, connected from {}, since {}", backend_pid,
                     holder[0]["host"].c_str(), holder[0]["since"].c_str());
}

// SIGTERM to the backends that `condition` selects; how many there were.
std::size_t terminate(pg::Control& connection, const std::string& name, std::string_view condition) {
  pqxx::nontransaction tx(connection);
  auto rows = tx.exec(fmt::format("select a.pid, a.application_name, pg_terminate_backend(a.pid) {} {}",
                                  replica_backends(name), condition));
  for (auto row : rows)
    log::info("ended backend {} ({}) of an earlier writer on the target", row[0].as<int>(), row[1].c_str());
  return rows.size();
}

// Roles of commands that work beside a writer, with a transaction id or a lock to wait for now and then: the end of a
// switchover and --undo, verify and its repairs, requests to the writer, sequences.
constexpr std::array<std::string_view, 15> kBesideWriter{
    "switchover", "fence",  "watchdog", "way-back",    "preflight", "dry-run", "count",    "verify",
    "repair",     "doubts", "resync",   "cut-request", "sequences", "wait",    "direction"};

std::string not_beside(const std::string& name) {
  std::string list;
  for (const auto role : kBesideWriter)
    list += (list.empty() ? "" : ", ") + quote_literal(fmt::format("pgbaton/{}/{}", name, role));
  return fmt::format("and a.application_name not in ({}) ", list);
}

// A writer that died leaves backends that run their statement to the end (CREATE INDEX does not look at its client),
// and they hold locks. Readers such as status hold no transaction id and are left alone. We hold the lock, so no other
// writer may have one. `whose` says it more closely.
void end_leftovers(pg::Control& connection, const std::string& name, const std::string& whose) {
  constexpr std::string_view kWriting = "and (a.backend_xid is not null or a.wait_event_type = 'Lock') ";
  auto deadline = Deadline::after(Milliseconds(10'000));
  while (terminate(connection, name, std::string(kWriting) + whose) > 0) {
    if (deadline.passed())
      throw Error(ErrorKind::failed, fmt::format("backends of an earlier writer of {} do not end", name))
          .side(Side::target)
          .action(Action::retry)
          .hint("Look for application_name pgbaton/" + name + "/… in pg_stat_activity on the target.");
    std::this_thread::sleep_for(kPoll);
  }
}

std::string host_name() {
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0) return "unknown";
  return buffer.data();
}

// Terms only grow; a smaller one, or no replica at all, is another state of this database than the one that we began
// our term in. What it is worth, the next start finds out.
Error target_replaced(const std::string& name, std::int64_t epoch, std::int64_t now) {
  const auto before = fmt::format("this process has term {}", epoch);
  if (now == 0)
    return Error(ErrorKind::held_elsewhere, fmt::format("the target knows no replica named {} any more ({}): the "
                                                        "replica was dropped, or the database was replaced",
                                                        name, before))
        .side(Side::target)
        .hint("Look at --target; `pgbaton clone` makes a new replica.");
  return Error(ErrorKind::failed, fmt::format("the target went back in time: replica {} is at term {}, {}. It was "
                                              "restored from a backup, or replaced",
                                              name, now, before))
      .side(Side::target)
      .hint("Run the same command again: it goes on if the source still has what is missing, and says so if not.");
}

Error taken_by_other(const std::string& name, std::int64_t epoch, std::int64_t now) {
  if (now < epoch) return target_replaced(name, epoch, now);
  return Error(
             ErrorKind::held_elsewhere,
             fmt::format("replica {} was taken over: this process has term {}, term {} is in force", name, epoch, now))
      .side(Side::target)
      .hint("Nothing was lost; `pgbaton status` shows who writes now.");
}

// What an earlier writer took and did not finish, nobody will: its requester must not wait for ever. A stop that no
// writer has read is fulfilled, and must not stop the one that begins now.
void close_requests(pqxx::work& tx, const std::string& name) {
  tx.exec_params(
      "update pgbaton.request set state = 'done', done_at = now(), result = case kind when 'stop' then "
      "'{\"stopped\": true}'::json else '{\"error\": \"the writer that took the request has ended\"}'::json end "
      "where replica = $1 and (state = 'taken' or (state = 'open' and kind = 'stop'))",
      name);
}

bool is_standby(pg::Control& connection) {
  pqxx::nontransaction tx(connection);
  return tx.exec1("select pg_is_in_recovery()")[0].as<bool>();
}

}  // namespace

void require_writable(pg::Control& connection) {
  if (!pg::control(Side::target, "looking whether the target is a standby", [&] { return is_standby(connection); }))
    return;
  throw Error(ErrorKind::preflight, "the target is a standby: it can only be read")
      .side(Side::target)
      .hint("Promote it, or give the primary's connection string.");
}

Lease Lease::acquire(const pg::Endpoint& target, const std::string& replica_name, bool take_over,
                     Milliseconds patience) {
  auto connection = pg::open_control(target, "lease");
  require_writable(*connection);
  bool mine = pg::control(Side::target, "taking the writer's lease", [&] {
    if (try_lock(*connection, replica_name)) return true;
    if (take_over) {
      log::warning("taking replica {} over from {}", replica_name, describe_holder(*connection, replica_name));
      terminate(*connection, replica_name, not_beside(replica_name));
    }
    return wait_for_lock(*connection, replica_name, patience);
  });
  if (!mine) {
    auto holder = pg::control(Side::target, "looking for the lease's holder",
                              [&] { return describe_holder(*connection, replica_name); });
    throw Error(ErrorKind::held_elsewhere, fmt::format("replica {} is held by {}", replica_name, holder))
        .side(Side::target)
        .hint("Wait for it or stop it; --take-over ends its sessions and goes on in its place.");
  }
  return Lease(target, replica_name, std::move(connection));
}

bool Lease::held(pg::Control& connection, const std::string& replica_name) {
  return pg::control(Side::target, "looking for the lease's holder", [&] {
    pqxx::nontransaction tx(connection);
    return tx.exec1("select exists (select from pg_catalog.pg_locks l where " + holder_condition(replica_name) + ")")[0]
        .as<bool>();
  });
}

std::int64_t Lease::begin_term() {
  PGBATON_FAILPOINT("term_begins");
  return pg::control(Side::target, "beginning the writer's term", [&] {
    end_leftovers(*connection_, name_, not_beside(name_));
    pqxx::work tx(*connection_);
    auto rows = tx.exec_params(
        "update pgbaton.replica set epoch = epoch + 1, writer_host = $2, writer_pid = $3, "
        "writer_backend_pid = pg_backend_pid(), writer_since = now(), last_error = null where name = $1 "
        "returning epoch",
        name_, host_name(), static_cast<int>(getpid()));
    if (rows.empty())
      throw Error(ErrorKind::usage, fmt::format("the target has no replica named {}", name_))
          .side(Side::target)
          .hint("Start one with `pgbaton clone`.");
    auto epoch = rows[0][0].as<std::int64_t>();
    tx.exec_params("update pgbaton.progress set epoch = $2 where replica = $1", name_, epoch);
    close_requests(tx, name_);
    tx.commit();
    epoch_ = epoch;
    return epoch;
  });
}

namespace {

// The epoch in force; nullopt when the replica is gone, with or without the schema.
std::optional<std::int64_t> epoch_in_force(pg::Control& connection, const std::string& name) {
  pqxx::nontransaction tx(connection);
  if (tx.exec1("select to_regclass('pgbaton.replica') is null")[0].as<bool>()) return std::nullopt;
  auto rows = tx.exec_params("select epoch from pgbaton.replica where name = $1", name);
  if (rows.empty()) return std::nullopt;
  return rows[0][0].as<std::int64_t>();
}

}  // namespace

void Lease::require_term() const {
  std::unique_ptr<pg::Control> connection;
  try {
    connection = pg::open_control(target_, "lease-check");
  } catch (const Error& error) {
    log::debug("asking for the writer's term: {}", error.describe());
    return;
  }
  const auto now = pg::control(Side::target, "asking for the writer's term",
                               [&] { return epoch_in_force(*connection, name_).value_or(0); });
  if (epoch_ != 0 && now != epoch_) throw taken_by_other(name_, epoch_, now);
}

void Lease::check() {
  auto compare = [&](pg::Control& connection) {
    auto now = epoch_in_force(connection, name_);
    if (epoch_ != 0 && now.value_or(0) != epoch_) throw taken_by_other(name_, epoch_, now.value_or(0));
  };
  try {
    compare(*connection_);
  } catch (const pqxx::failure&) {
    // Only this session may be gone, or the whole server: a second connection tells (or throws its own retry).
    auto other = pg::open_control(target_, "lease-check");
    pg::control(Side::target, "checking the writer's lease", [&] { compare(*other); });
    throw Error(ErrorKind::failed, fmt::format("the connection that holds the lease of {} is gone", name_))
        .side(Side::target)
        .action(Action::retry)
        .hint("Nothing was lost; run the same command again.");
  }
}

bool Lease::still_held() {
  try {
    pqxx::nontransaction tx(*connection_);
    return tx
        .exec1("select exists (select from pg_catalog.pg_locks l where l.pid = pg_backend_pid() and " +
               holder_condition(name_) + ")")[0]
        .as<bool>();
  } catch (const pqxx::failure& failure) {
    log::debug("the lease's connection is gone: {}", failure.what());
    return false;
  }
}

// Another process must not slip in between, so the connection is only given up when it is of no use.
void Lease::reconnect() {
  connection_->disconnect();  // half-alive it would keep the lock from ourselves
  auto connection = pg::open_control(target_, "lease");
  bool mine = pg::control(Side::target, "taking the writer's lease again", [&] {
    constexpr Milliseconds kPatience{5000};  // the server may not have noticed yet that the old session is gone
    return wait_for_lock(*connection, name_, kPatience);
  });
  if (!mine) {
    auto holder = pg::control(Side::target, "looking for the lease's holder",
                              [&] { return describe_holder(*connection, name_); });
    throw Error(ErrorKind::held_elsewhere, fmt::format("replica {} is now held by {}", name_, holder))
        .side(Side::target)
        .hint("Nothing was lost; `pgbaton status` shows who writes now.");
  }
  connection_ = std::move(connection);
}

// A COMMIT whose reply was lost may still be on its way, or wait for a synchronous standby: to the new session its rows
// and its progress would not be there, and it would write them a second time. So whatever the former apply session has
// open is ended, one way or the other, before progress is read.
void Lease::renew() {
  if (!still_held()) reconnect();
  pg::control(Side::target, "taking the writer's lease again", [&] {
    if (is_standby(*connection_))
      throw Error(ErrorKind::failed, "the target is a standby at the moment: it can only be read")
          .side(Side::target)
          .action(Action::retry)
          .hint("Promote it, or give the primary's connection string.");
    auto now = epoch_in_force(*connection_, name_);
    if (epoch_ != 0 && now.value_or(0) != epoch_) throw taken_by_other(name_, epoch_, now.value_or(0));
    end_leftovers(*connection_, name_,
                  "and a.application_name = " + quote_literal("pgbaton/" + name_ + "/" + std::string(kApplyRole)));
    pqxx::work tx(*connection_);
    tx.exec_params("update pgbaton.replica set writer_backend_pid = pg_backend_pid() where name = $1 and epoch = $2",
                   name_, epoch_);
    tx.commit();
  });
}

}  // namespace pgbaton::state
