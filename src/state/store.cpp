// The replica row: loading it, and the steps of its life. Every write names the epoch it belongs to.
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/store.hpp>

#include <fmt/format.h>

#include "event_row.hpp"
#include "fence.hpp"
#include "table_rows.hpp"

namespace pgbaton::state {

namespace {

// Columns that came with a later version of the schema are looked for by name: whoever only reads does not migrate.
constexpr std::string_view kReplicaColumns =
    "name, generation, source_system_id, source_timeline, source_database, slot, publication, publication_inserts, "
    "owns_publication, consistent_point, phase, epoch, direction, coalesce(options::text, '') as options, "
    "schema_restored, coalesce(to_jsonb(r) ->> 'publication_state', '') as publication_state, replica_role, "
    "writer_host, writer_pid, writer_backend_pid, "
    "coalesce(to_char(writer_since at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), '') as writer_since, "
    "coalesce(last_error::text, '') as last_error, {} as copied_at, {} as indexed_at, {} as ready_at, "
    "coalesce(to_jsonb(r) ->> 'ready_goal_lsn', '0/0') as ready_goal_lsn, "
    "coalesce(to_jsonb(r) ->> 'ready_lsn', '0/0') as ready_lsn, "
    "coalesce(to_jsonb(r) ->> 'ready_lag_bytes', '0')::bigint as ready_lag_bytes, "
    "to_jsonb(r) ->> 'history_break' as history_break";

std::string replica_columns() {
  const auto time = [](std::string_view column) {
    return fmt::format(
        "coalesce(to_char((to_jsonb(r) ->> '{}')::timestamptz at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), "
        "'')",
        column);
  };
  return fmt::format(fmt::runtime(kReplicaColumns), time("copied_at"), time("indexed_at"), time("ready_at"));
}

std::optional<HistoryBreak> read_history_break(pqxx::transaction_base& tx, const pqxx::row& row) {
  if (row["history_break"].is_null()) return std::nullopt;
  const auto found = tx.exec_params1(
      "select b ->> 'message', b ->> 'hint', b ->> 'at', (b ->> 'timeline')::bigint, b ->> 'flush_lsn', "
      "b ->> 'slot_lsn' from (select $1::json as b) as broken",
      row["history_break"].c_str());
  return HistoryBreak{found[0].as<std::string>(),
                      found[1].as<std::string>(),
                      found[2].as<std::string>(),
                      found[3].as<std::uint32_t>(),
                      require_lsn(found[4].c_str(), "pgbaton.replica.history_break.flush_lsn"),
                      require_lsn(found[5].c_str(), "pgbaton.replica.history_break.slot_lsn")};
}

Replica read_replica(const pqxx::row& row) {
  Replica r;
  r.name = row["name"].as<std::string>();
  r.generation = row["generation"].as<std::string>();
  r.source_system_id = row["source_system_id"].as<std::uint64_t>();
  r.source_timeline = row["source_timeline"].as<std::uint32_t>();
  r.source_database = row["source_database"].as<std::string>();
  r.slot = row["slot"].as<std::string>();
  r.publication = row["publication"].as<std::string>();
  r.publication_inserts = row["publication_inserts"].as<std::string>();
  r.owns_publication = row["owns_publication"].as<bool>();
  r.consistent_point = require_lsn(row["consistent_point"].c_str(), "pgbaton.replica.consistent_point");
  r.phase = parse_phase(row["phase"].c_str());
  r.epoch = row["epoch"].as<std::int64_t>();
  r.direction = row["direction"].as<std::string>();
  r.options = row["options"].as<std::string>();
  r.schema_restored = row["schema_restored"].as<bool>();
  r.publication_state = row["publication_state"].as<std::string>();
  r.replica_role = row["replica_role"].as<bool>();
  r.writer_host = row["writer_host"].as<std::string>();
  r.writer_pid = row["writer_pid"].as<int>();
  r.writer_backend_pid = row["writer_backend_pid"].as<int>();
  r.writer_since = row["writer_since"].as<std::string>();
  r.last_error = row["last_error"].as<std::string>();
  auto& readiness = r.readiness;
  readiness.copied_at = row["copied_at"].as<std::string>();
  readiness.indexed_at = row["indexed_at"].as<std::string>();
  readiness.ready_at = row["ready_at"].as<std::string>();
  readiness.goal_lsn = require_lsn(row["ready_goal_lsn"].c_str(), "pgbaton.replica.ready_goal_lsn");
  readiness.ready_lsn = require_lsn(row["ready_lsn"].c_str(), "pgbaton.replica.ready_lsn");
  readiness.lag_limit_bytes = row["ready_lag_bytes"].as<std::int64_t>();
  return r;
}

// One checked UPDATE of the replica row; $1 name, $2 generation, $3 epoch, the caller's values from $4 on.
template <typename... Values>
void update_replica(pqxx::transaction_base& tx, const Replica& replica, std::string_view doing, std::string_view set,
                    std::string_view condition, const Values&... values) {
  auto sql =
      fmt::format("update pgbaton.replica set {} where name = $1 and generation = $2 and epoch = $3{}", set, condition);
  require_one(tx.exec_params(sql, replica.name, replica.generation, replica.epoch, values...), replica, doing);
}

}  // namespace

std::string mine_cte(const Replica& replica) {
  return fmt::format(
      "with mine as (select 1 from pgbaton.replica where name = {} and generation = {} and epoch = {} for share) ",
      quote_literal(replica.name), quote_literal(replica.generation), replica.epoch);
}

void throw_fenced(const Replica& replica, std::string_view doing) {
  throw Error(
      ErrorKind::held_elsewhere,
      fmt::format("{}: fenced, term {} of replica {} (generation {}) is over; nothing of this step was committed",
                  doing, replica.epoch, replica.name, replica.generation))
      .side(Side::target)
      .hint("Another process took the replica over; `pgbaton status` shows which.");
}

void require_one(const pqxx::result& result, const Replica& replica, std::string_view doing) {
  if (result.affected_rows() != 1) throw_fenced(replica, doing);
}

std::optional<Replica> Store::load_replica(const std::string& name) {
  if (!installed()) return std::nullopt;
  try {
    return read_row(name);
  } catch (const Error& error) {
    // The schema went between the two statements, with the last replica.
    if (error.sqlstate() != "42P01" || installed()) throw;
    return std::nullopt;
  }
}

std::optional<Replica> Store::read_row(const std::string& name) {
  return pg::control(Side::target, "loading the replica", [&]() -> std::optional<Replica> {
    pqxx::nontransaction tx(connection_);
    auto rows =
        tx.exec_params(fmt::format("select {} from pgbaton.replica r where name = $1", replica_columns()), name);
    if (rows.empty()) return std::nullopt;
    auto replica = read_replica(rows[0]);
    replica.history_break = read_history_break(tx, rows[0]);
    return replica;
  });
}

std::vector<std::string> Store::replica_names() {
  std::vector<std::string> names;
  if (!installed()) return names;
  pg::control(Side::target, "listing replicas", [&] {
    pqxx::nontransaction tx(connection_);
    for (auto row : tx.exec("select name from pgbaton.replica where name !~ '__' order by name"))
      names.push_back(row[0].as<std::string>());
  });
  return names;
}

void Store::insert_replica(const Replica& replica, const std::vector<TableState>& tables) {
  pg::control(Side::target, "recording the replica", [&] {
    pqxx::work tx(connection_);
    auto inserted = tx.exec_params(
        "insert into pgbaton.replica (name, generation, source_system_id, source_timeline, source_database, slot, "
        "publication, publication_inserts, owns_publication, consistent_point, phase, epoch, direction, options, "
        "replica_role) values ($1, $2, $3::numeric, $4, $5, $6, $7, $8, $9, $10::pg_lsn, $11, $12, $13, "
        "nullif($14, '')::json, $15) on conflict do nothing",
        replica.name, replica.generation, std::to_string(replica.source_system_id), replica.source_timeline,
        replica.source_database, replica.slot, replica.publication, replica.publication_inserts,
        replica.owns_publication, to_string(replica.consistent_point), std::string(to_string(replica.phase)),
        replica.epoch, replica.direction, replica.options, replica.replica_role);
    if (inserted.affected_rows() != 1)
      throw Error(ErrorKind::usage, fmt::format("a replica named {} exists already", replica.name))
          .side(Side::target)
          .hint("Give another --name, or continue the existing one.");
    insert_table_rows(tx, replica, tables);
    tx.commit();
  });
}

void Store::replace_generation(const Replica& replica, const std::vector<TableState>& tables) {
  pg::control(Side::target, "recording the new generation", [&] {
    pqxx::work tx(connection_);
    auto updated = tx.exec_params(
        "update pgbaton.replica set generation = $3, source_system_id = $4::numeric, source_timeline = $5, "
        "source_database = $6, slot = $7, publication = $8, publication_inserts = $9, owns_publication = $10, "
        "consistent_point = '0/0', expired_lsn = '0/0', phase = 'creating', direction = $11, "
        "options = nullif($12, '')::json, replica_role = $13, schema_restored = $14, publication_state = null, "
        "history_break = null, "
        "copied_at = null, indexed_at = null, ready_at = null, ready_goal_lsn = '0/0', ready_lsn = '0/0', "
        "created_at = now() where name = $1 and epoch = $2",
        replica.name, replica.epoch, replica.generation, std::to_string(replica.source_system_id),
        replica.source_timeline, replica.source_database, replica.slot, replica.publication,
        replica.publication_inserts, replica.owns_publication, replica.direction, replica.options, replica.replica_role,
        replica.schema_restored);
    require_one(updated, replica, "recording the new generation");
    for (const char* table : {"progress", "copy_part", "tombstone", "tombstone_hold", "table_state", "doubt"})
      tx.exec_params(fmt::format("delete from pgbaton.{} where replica = $1", table), replica.name);
    insert_table_rows(tx, replica, tables);
    tx.commit();
  });
}

namespace {

// Column and event of the step of readiness that a phase stands for; none for the others.
struct Step {
  std::string_view column, event;
};
Step readiness_step(Phase phase) {
  switch (phase) {
    case Phase::indexing:
      return {"copied_at", "copied"};
    case Phase::streaming:
      return {"indexed_at", "indexed"};
    case Phase::ready:
      return {"ready_at", "ready"};
    case Phase::none:
    case Phase::creating:
    case Phase::copying:
      return {};
  }
  return {};
}

}  // namespace

void Store::store_phase(const Replica& replica, Phase phase, Lsn applied_lsn) {
  pg::control(Side::target, "storing the replica's phase", [&] {
    pqxx::work tx(connection_);
    constexpr std::string_view kOrder = "'{creating,copying,indexing,streaming,ready}'::text[]";
    const auto step = readiness_step(phase);
    const bool is_new = tx.exec_params("select from pgbaton.replica where name = $1 and phase <> $2", replica.name,
                                       std::string(to_string(phase)))
                            .size() == 1;
    std::string set = "phase = $4, ready_lsn = greatest(ready_lsn, $5::pg_lsn)";
    if (is_new && !step.column.empty()) set += fmt::format(", {} = clock_timestamp()", step.column);
    update_replica(tx, replica, fmt::format("entering phase {}", to_string(phase)), set,
                   fmt::format(" and array_position({0}, phase) <= array_position({0}, $4::text)", kOrder),
                   std::string(to_string(phase)), to_string(applied_lsn));
    Fields detail{{"generation", replica.generation}};
    if (applied_lsn) detail["applied_lsn"] = to_string(applied_lsn);
    if (is_new && !step.event.empty()) insert_event(tx, replica.name, step.event, to_json(detail));
    tx.commit();
  });
}

Lsn Store::store_ready_goal(const Replica& replica, Lsn goal_lsn, std::uint64_t lag_limit_bytes) {
  constexpr std::string_view kDoing = "storing what ready takes";
  return pg::control(Side::target, kDoing, [&] {
    pqxx::work tx(connection_);
    const auto rows = tx.exec_params(
        "update pgbaton.replica set ready_lag_bytes = $5, "
        "ready_goal_lsn = case when ready_goal_lsn = '0/0' then $4::pg_lsn else ready_goal_lsn end "
        "where name = $1 and generation = $2 and epoch = $3 returning ready_goal_lsn",
        replica.name, replica.generation, replica.epoch, to_string(goal_lsn), lag_limit_bytes);
    require_one(rows, replica, kDoing);
    tx.commit();
    return require_lsn(rows[0][0].c_str(), "pgbaton.replica.ready_goal_lsn");
  });
}

void Store::store_consistent_point(const Replica& replica, Lsn consistent_point) {
  pg::control(Side::target, "storing the consistent point", [&] {
    pqxx::work tx(connection_);
    update_replica(tx, replica, "storing the consistent point", "consistent_point = $4::pg_lsn", "",
                   to_string(consistent_point));
    tx.exec_params(
        "insert into pgbaton.progress (replica, generation, applier_number, applier_count, epoch, applied_lsn) "
        "values ($1, $2, 0, 1, $3, $4::pg_lsn)",
        replica.name, replica.generation, replica.epoch, to_string(consistent_point));
    tx.commit();
  });
}

void Store::store_replica_role(const Replica& replica, bool used) {
  pg::control(Side::target, "storing the use of session_replication_role", [&] {
    pqxx::work tx(connection_);
    update_replica(tx, replica, "storing the use of session_replication_role", "replica_role = $4", "", used);
    tx.commit();
  });
}

void Store::store_publication_state(const Replica& replica, const std::string& json) {
  pg::control(Side::target, "recording the publications", [&] {
    pqxx::work tx(connection_);
    update_replica(tx, replica, "recording the publications", "publication_state = $4::json", "", json);
    tx.commit();
  });
}

void Store::store_history_break(const Replica& replica, const std::optional<HistoryBreak>& found) {
  constexpr std::string_view kDoing = "recording what became of the source's history";
  pg::control(Side::target, kDoing, [&] {
    pqxx::work tx(connection_);
    if (!found) {
      update_replica(tx, replica, kDoing, "history_break = null", "");
    } else {
      update_replica(tx, replica, kDoing,
                     "history_break = json_build_object('kind', 'boundary_lost', 'exit_code', 4, 'message', $4::text, "
                     "'hint', $5::text, 'at', to_char(now() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), "
                     "'timeline', $6::bigint, "
                     "'flush_lsn', greatest($7::pg_lsn, (history_break ->> 'flush_lsn')::pg_lsn), "
                     "'slot_lsn', greatest($8::pg_lsn, (history_break ->> 'slot_lsn')::pg_lsn))",
                     "", found->message, found->hint, found->timeline, to_string(found->flush_lsn),
                     to_string(found->slot_lsn));
    }
    tx.commit();
  });
}

void Store::store_source_timeline(const Replica& replica, std::uint32_t timeline) {
  pg::control(Side::target, "recording the source's timeline", [&] {
    pqxx::work tx(connection_);
    update_replica(tx, replica, "recording the source's timeline", "source_timeline = $4", "", timeline);
    tx.exec_params("update pgbaton.progress set slot_restart_lsn = '0/0' where replica = $1", replica.name);
    tx.commit();
  });
}

void Store::store_last_error(const std::string& name, const std::string& json) {
  pg::control(Side::target, "storing the last error", [&] {
    pqxx::work tx(connection_);
    // No condition: the reason why a fenced writer ended is news, too; and there may be no row yet.
    tx.exec_params("update pgbaton.replica set last_error = nullif($2, '')::json where name = $1", name, json);
    tx.commit();
  });
}

void Store::delete_replica(const std::string& name) {
  pg::control(Side::target, "deleting the replica's state", [&] {
    pqxx::work tx(connection_);
    // The replica's row first: without it nobody needs its tombstones (refuse_early_expiry).
    tx.exec_params("delete from pgbaton.replica where name = $1", name);
    for (const char* table :
         {"event", "tombstone", "tombstone_hold", "request", "progress", "copy_part", "table_state", "doubt"})
      tx.exec_params(fmt::format("delete from pgbaton.{} where replica = $1", table), name);
    tx.commit();
  });
}

}  // namespace pgbaton::state
