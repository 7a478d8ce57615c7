// Holds, and the expiry of tombstones and ledger entries.
#include <pgbaton/state/retention.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "fence.hpp"

namespace pgbaton::state {

namespace {

std::string in_schema(const std::string& ledger) {
  return "pgbaton." + quote_identifier(ledger);
}

// A schema from before all this, which who only reads leaves as it is.
bool is_older(pqxx::transaction_base& tx) {
  return tx.exec1("select to_regclass('pgbaton.tombstone_hold') is null")[0].as<bool>();
}

// What the state itself allows: nothing above the applied position, nothing at or above a hold, never back. pg_lsn has
// min() since 13 only, so sort.
Lsn record_expiry(pqxx::transaction_base& tx, const Replica& replica, Lsn below_lsn) {
  auto rows = tx.exec_params(
      "with limits as (select applied_lsn as lsn from pgbaton.progress where replica = $1 and generation = $2 "
      "union all select from_lsn from pgbaton.tombstone_hold where replica = $1 and from_lsn > '0/0' "
      "union all select $4::pg_lsn), lowest as (select lsn from limits order by lsn limit 1) "
      "update pgbaton.replica r set expired_lsn = greatest(r.expired_lsn, l.lsn) from lowest l "
      "where r.name = $1 and r.generation = $2 and r.epoch = $3 returning r.expired_lsn",
      replica.name, replica.generation, replica.epoch, to_string(below_lsn));
  require_one(rows, replica, "expiring tombstones");
  return require_lsn(rows[0][0].c_str(), "pgbaton.replica.expired_lsn");
}

// Never waits for a row that the applier is writing, and so cannot meet it in a deadlock.
std::int64_t remove_below(pqxx::transaction_base& tx, const std::string& table, const std::string& condition,
                          Lsn expired_lsn, int rows_at_once) {
  return static_cast<std::int64_t>(
      tx.exec(fmt::format("delete from {0} where ctid = any (array(select ctid from {0} where {1}commit_lsn < '{2}' "
                          "limit {3} for update skip locked))",
                          table, condition, to_string(expired_lsn), rows_at_once))
          .affected_rows());
}

}  // namespace

Lsn oldest_held(const std::vector<Hold>& holds, Lsn none) {
  for (const auto& hold : holds)
    if (hold.from_lsn) none = std::min(none, hold.from_lsn);
  return none;
}

std::int64_t Store::add_hold(const std::string& name, const QualifiedName& table, std::string_view reason) {
  return pg::control(Side::target, "asking for tombstones", [&] {
    pqxx::work tx(connection_);
    auto id = tx.exec_params1(
                    "insert into pgbaton.tombstone_hold (replica, schema_name, table_name, reason) "
                    "values ($1, $2, $3, $4) returning id",
                    name, table.schema, table.name, std::string(reason))[0]
                  .as<std::int64_t>();
    tx.commit();
    return id;
  });
}

void Store::limit_hold(std::int64_t id, Lsn until_lsn) {
  pg::control(Side::target, "limiting a hold on tombstones", [&] {
    pqxx::work tx(connection_);
    auto rows = tx.exec_params("update pgbaton.tombstone_hold set until_lsn = $2::pg_lsn where id = $1", id,
                               to_string(until_lsn));
    if (rows.affected_rows() != 1)
      throw Error(ErrorKind::failed, fmt::format("hold {} on tombstones is gone", id))
          .side(Side::target)
          .hint("Somebody released it. Run the same command again.");
    tx.commit();
  });
}

void Store::release_hold(std::int64_t id) {
  pg::control(Side::target, "releasing a hold on tombstones", [&] {
    pqxx::work tx(connection_);
    tx.exec_params("delete from pgbaton.tombstone_hold where id = $1", id);
    tx.commit();
  });
}

void Store::activate_hold(const Replica& replica, std::int64_t id, Lsn from_lsn) {
  pg::control(Side::target, "taking up a hold on tombstones", [&] {
    pqxx::work tx(connection_);
    // No row: released in the meantime, or another writer's to take up.
    tx.exec(mine_cte(replica) + fmt::format("update pgbaton.tombstone_hold h set from_lsn = '{}' from mine "
                                            "where h.id = {} and h.from_lsn = '0/0'",
                                            to_string(from_lsn), id));
    tx.commit();
  });
}

std::vector<Hold> Store::load_holds(const std::string& name) {
  return pg::control(Side::target, "loading holds on tombstones", [&] {
    std::vector<Hold> holds;
    pqxx::nontransaction tx(connection_);
    if (is_older(tx)) return holds;
    for (auto row : tx.exec_params(
             "select id, schema_name, table_name, from_lsn, coalesce(until_lsn, '0/0') as until_lsn, reason, "
             "extract(epoch from clock_timestamp() - created_at)::float8 as age "
             "from pgbaton.tombstone_hold where replica = $1 order by id",
             name)) {
      Hold hold;
      hold.id = row["id"].as<std::int64_t>();
      hold.table = {row["schema_name"].as<std::string>(), row["table_name"].as<std::string>()};
      hold.from_lsn = require_lsn(row["from_lsn"].c_str(), "pgbaton.tombstone_hold.from_lsn");
      hold.until_lsn = require_lsn(row["until_lsn"].c_str(), "pgbaton.tombstone_hold.until_lsn");
      hold.reason = row["reason"].as<std::string>();
      hold.age_seconds = row["age"].as<double>();
      holds.push_back(std::move(hold));
    }
    return holds;
  });
}

Expiry Store::expire(const Replica& replica, const std::vector<TableState>& tables, Lsn below_lsn, int rows_at_once) {
  return pg::control(Side::target, "expiring tombstones", [&] {
    Expiry expiry;
    const auto count = [&](std::int64_t removed) {
      expiry.removed += removed;
      expiry.more = expiry.more || removed == rows_at_once;
    };
    {
      pqxx::work tx(connection_);
      expiry.expired_lsn = record_expiry(tx, replica, below_lsn);
      count(remove_below(tx, "pgbaton.tombstone", fmt::format("replica = {} and ", quote_literal(replica.name)),
                         expiry.expired_lsn, rows_at_once));
      tx.commit();
    }
    for (const auto& table : tables) {
      if (table.ledger.empty()) continue;
      pqxx::work tx(connection_);
      count(remove_below(tx, in_schema(table.ledger), "", expiry.expired_lsn, rows_at_once));
      tx.commit();
    }
    return expiry;
  });
}

GuardSizes Store::load_guard_sizes(const std::string& name) {
  return pg::control(Side::target, "measuring tombstones and ledgers", [&] {
    GuardSizes sizes;
    pqxx::nontransaction tx(connection_);
    if (is_older(tx)) return sizes;
    auto rows = tx.exec_params(
        "select r.expired_lsn, greatest(c.reltuples, 0)::bigint as entries, pg_total_relation_size(c.oid) as bytes "
        "from pgbaton.replica r cross join pg_catalog.pg_class c "
        "where r.name = $1 and c.oid = 'pgbaton.tombstone'::regclass",
        name);
    if (rows.empty()) return sizes;
    sizes.expired_lsn = require_lsn(rows[0]["expired_lsn"].c_str(), "pgbaton.replica.expired_lsn");
    sizes.tombstones = rows[0]["entries"].as<std::int64_t>();
    sizes.tombstone_bytes = rows[0]["bytes"].as<std::int64_t>();
    for (auto row : tx.exec_params(
             "select t.schema_name, t.table_name, greatest(c.reltuples, 0)::bigint as entries, "
             "coalesce(pg_total_relation_size(c.oid), 0) as bytes from pgbaton.table_state t "
             "join pg_catalog.pg_class c on c.relname = t.ledger and c.relnamespace = 'pgbaton'::regnamespace "
             "where t.replica = $1 and t.ledger <> '' order by 1, 2",
             name))
      sizes.ledgers.push_back({{row["schema_name"].as<std::string>(), row["table_name"].as<std::string>()},
                               row["entries"].as<std::int64_t>(),
                               row["bytes"].as<std::int64_t>()});
    return sizes;
  });
}

}  // namespace pgbaton::state
