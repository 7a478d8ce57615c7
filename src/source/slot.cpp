// What slots are there, and how one is removed.
#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/source/slot.hpp>

#include <thread>

namespace pgbaton::source {
namespace {

// A terminated walsender lets go of its slot within milliseconds, unless it is stuck in the kernel.
constexpr Milliseconds kReleaseTimeout{10'000};

constexpr int kFailoverSlots = 170000;

// wal_status came with 13; why a slot was invalidated with 17, as a mere flag of recovery conflicts with 16.
std::string slot_query(int version_num) {
  return fmt::format(
      R"(
select s.slot_name as name, coalesce(s.plugin, '') as plugin, coalesce(s.database, '') as database,
       {} as wal_status, {} as invalidation_reason, {} as failover, {} as synced, s.active, s.temporary, coalesce(s.active_pid, 0) as active_pid,
       coalesce(s.confirmed_flush_lsn, '0/0') as confirmed_flush_lsn, coalesce(s.restart_lsn, '0/0') as restart_lsn,
       case when s.restart_lsn is null then 0 else pg_wal_lsn_diff(
         case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, s.restart_lsn
       )::bigint end as held_bytes, {} as safe_bytes
  from pg_replication_slots s where s.slot_name = $1)",
      version_num >= 130000 ? "coalesce(s.wal_status, '')" : "''",
      version_num >= 170000   ? "coalesce(s.invalidation_reason, '')"
      : version_num >= 160000 ? "case when s.conflicting then 'recovery_conflict' else '' end"
                              : "''",
      version_num >= kFailoverSlots ? "s.failover" : "false", version_num >= kFailoverSlots ? "s.synced" : "false",
      version_num >= 130000 ? "case when s.safe_wal_size is null then -1 else greatest(s.safe_wal_size, 0) end"
                            : "-1::bigint");
}

std::optional<SlotInfo> read_slot(pqxx::transaction_base& transaction, const std::string& name) {
  const auto rows = transaction.exec_params(slot_query(transaction.conn().server_version()), name);
  if (rows.empty()) return std::nullopt;
  const auto& row = rows[0];
  SlotInfo slot;
  slot.name = row["name"].as<std::string>();
  slot.plugin = row["plugin"].as<std::string>();
  slot.database = row["database"].as<std::string>();
  slot.wal_status = row["wal_status"].as<std::string>();
  slot.invalidation_reason = row["invalidation_reason"].as<std::string>();
  slot.active = row["active"].as<bool>();
  slot.failover = row["failover"].as<bool>();
  slot.synced = row["synced"].as<bool>();
  slot.temporary = row["temporary"].as<bool>();
  slot.active_pid = row["active_pid"].as<int>();
  slot.confirmed_flush_lsn = require_lsn(row["confirmed_flush_lsn"].c_str(), "confirmed_flush_lsn");
  slot.restart_lsn = require_lsn(row["restart_lsn"].c_str(), "restart_lsn");
  slot.held_bytes = row["held_bytes"].as<std::int64_t>();
  slot.safe_bytes = row["safe_bytes"].as<std::int64_t>();
  return slot;
}

enum class Dropped { yes, missing, in_use };

Dropped try_drop(pqxx::transaction_base& transaction, const std::string& name) {
  try {
    transaction.exec_params1("select pg_drop_replication_slot($1)", name);
    return Dropped::yes;
  } catch (const pqxx::sql_error& error) {
    if (pg::sqlstate_of(error) == "42704") return Dropped::missing;
    if (pg::sqlstate_of(error) == "55006") return Dropped::in_use;
    throw;
  }
}

}  // namespace

std::optional<SlotInfo> load_slot(pg::Control& source, const std::string& name) {
  return pg::control(Side::source, "reading slot " + quote_identifier(name), [&] {
    pqxx::nontransaction transaction(source);
    return read_slot(transaction, name);
  });
}

bool drop_slot(pg::Control& source, const std::string& name, bool terminate) {
  return pg::control(Side::source, "dropping slot " + quote_identifier(name), [&] {
    pqxx::nontransaction transaction(source);
    const auto deadline = Deadline::after(kReleaseTimeout);
    for (bool seen = false;; seen = true) {
      const auto slot = read_slot(transaction, name);
      // Slots are the whole server's; one of another database is another replica's, whatever its name.
      if (slot && slot->database != transaction.conn().dbname()) {
        log::warning("slot {} stays: it belongs to database {}", quote_identifier(name),
                     quote_identifier(slot->database));
        return seen;
      }
      // Gone after it was seen: a temporary slot ends with the session that was terminated.
      if (!slot) return seen;
      if (!slot->active) {
        const auto dropped = try_drop(transaction, name);
        if (dropped != Dropped::in_use) return seen || dropped == Dropped::yes;
      } else if (terminate) {
        transaction.exec_params1("select pg_terminate_backend($1)", slot->active_pid);
      }
      if (!terminate || deadline.passed()) {
        throw Error(ErrorKind::failed,
                    fmt::format("slot {} is in use by backend {}", quote_identifier(name), slot->active_pid))
            .side(Side::source)
            .sqlstate("55006")
            .action(Action::retry)
            .hint(fmt::format("Stop that client, or end it with SELECT pg_terminate_backend({}).", slot->active_pid));
      }
      std::this_thread::sleep_for(Milliseconds(20));
    }
  });
}

namespace {

// An empty transaction with an id: its commit record has the WAL writer flush all that stands before it, also what open
// transactions of other databases wrote, within three times wal_writer_delay (XLogSetAsyncXactLSN of xlog.c).
void commit_anything(pg::Control& source) {
  try {
    pqxx::work transaction(source);
    transaction.exec1("select txid_current()");
    transaction.commit();
  } catch (const pqxx::sql_error& error) {
    log::debug("no transaction id: {}", error.what());  // a standby
  } catch (...) {
    pg::rethrow(Side::source, "committing an empty transaction");
  }
}

}  // namespace

Lsn emit_barrier(pg::Control& source) {
  // The message alone is not what to wait for: its LSN lies before the commit record that makes it visible. The flush
  // position read after the commit lies behind that record, and behind everything that committed before this call:
  // also asynchronously (synchronous_commit = off), which nothing but a later flush makes durable. Locally durable is
  // enough, so a missing synchronous standby cannot hold us up. Below 14 pgoutput passes over the message.
  try {
    pqxx::work transaction(source);
    transaction.exec0("set local synchronous_commit = local");
    transaction.exec1("select pg_logical_emit_message(true, 'pgbaton', 'barrier')");
    transaction.commit();
    return catalog::current_flush_lsn(source, Side::source);
  } catch (const pqxx::sql_error& error) {
    // Not permitted, or a standby: then other commits and keepalives have to do.
    const auto state = pg::sqlstate_of(error);
    if (state != "42501" && state != "25006" && state != "55000") pg::rethrow(Side::source, "emitting a barrier");
    log::debug("no barrier message: {}", error.what());
  } catch (...) {
    pg::rethrow(Side::source, "emitting a barrier");
  }
  commit_anything(source);
  return catalog::current_insert_lsn(source, Side::source);
}

}  // namespace pgbaton::source
