// Table states and progress.
#include <fmt/format.h>

#include "fence.hpp"
#include "table_rows.hpp"

namespace pgbaton::state {

namespace {

std::string shape_literal(const TableState& t) {
  return t.source_shape.empty() ? "null::json" : quote_literal(t.source_shape) + "::json";
}

// One row of a VALUES list; the order of columns is that of insert_table_rows().
std::string values_row(const Replica& replica, const TableState& t) {
  return fmt::format("({}, {}, {}, {}, {}, '{}', '{}', '{}', {}, {}, {}, '{}', {}, {}, {}, {}, {}, {})",
                     quote_literal(replica.name), quote_literal(replica.generation), quote_literal(t.name.schema),
                     quote_literal(t.name.name), t.source_oid, to_string(t.boundary), to_string(t.floor),
                     to_string(t.guard), t.guarded, quote_literal(t.ledger), quote_literal(t.ledger_key),
                     to_string(t.phase), t.rows, t.bytes, t.bytes_total, t.inserts_only, quote_literal(t.note),
                     shape_literal(t));
}

TableState read_table(const pqxx::row& row) {
  TableState t;
  t.source_oid = row["source_oid"].as<std::uint32_t>();
  t.name = {row["schema_name"].as<std::string>(), row["table_name"].as<std::string>()};
  t.inserts_only = row["inserts_only"].as<bool>();
  t.boundary = require_lsn(row["boundary"].c_str(), "pgbaton.table_state.boundary");
  t.floor = require_lsn(row["floor_lsn"].c_str(), "pgbaton.table_state.floor_lsn");
  t.guard = parse_guard_kind(row["guard"].c_str());
  t.guarded = row["guarded"].as<bool>();
  t.ledger = row["ledger"].as<std::string>();
  t.ledger_key = row["ledger_key"].as<std::string>();
  t.phase = parse_table_phase(row["phase"].c_str());
  t.rows = row["rows"].as<std::int64_t>();
  t.bytes = row["bytes"].as<std::int64_t>();
  t.bytes_total = row["bytes_total"].as<std::int64_t>();
  t.note = row["note"].as<std::string>();
  t.source_shape = row["source_shape"].as<std::string>();
  t.missing_rows = row["missing_rows"].as<std::int64_t>();
  t.target_oid = row["target_oid"].as<std::uint32_t>();
  t.detached = row["detached"].as<bool>();
  return t;
}

}  // namespace

void insert_table_rows(pqxx::transaction_base& tx, const Replica& replica, const std::vector<TableState>& tables) {
  constexpr std::size_t kRowsPerStatement = 1000;  // keeps one statement well below a megabyte
  for (std::size_t at = 0; at < tables.size(); at += kRowsPerStatement) {
    std::string sql =
        "insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid, boundary, "
        "floor_lsn, guard, guarded, ledger, ledger_key, phase, rows, bytes, bytes_total, inserts_only, note, "
        "source_shape) values ";
    for (std::size_t i = at; i < std::min(at + kRowsPerStatement, tables.size()); ++i)
      sql += (i == at ? "" : ", ") + values_row(replica, tables[i]);
    tx.exec(sql + " on conflict do nothing");
  }
}

std::string Store::copied_statement(const Replica& replica, const TableState& t) {
  return mine_cte(replica) +
         fmt::format(
             "update pgbaton.table_state t set source_oid = {}, boundary = '{}', floor_lsn = '{}', guard = '{}', "
             "guarded = {}, ledger = {}, ledger_key = {}, phase = '{}', rows = {}, bytes = {}, bytes_total = {}, "
             "inserts_only = {}, note = {}, source_shape = {} "
             "from mine where t.replica = {} and t.generation = {} and t.schema_name = {} and t.table_name = {}",
             t.source_oid, to_string(t.boundary), to_string(t.floor), to_string(t.guard), t.guarded,
             quote_literal(t.ledger), quote_literal(t.ledger_key), to_string(t.phase), t.rows, t.bytes, t.bytes_total,
             t.inserts_only, quote_literal(t.note), shape_literal(t), quote_literal(replica.name),
             quote_literal(replica.generation), quote_literal(t.name.schema), quote_literal(t.name.name));
}

std::vector<TableState> Store::load_tables(const Replica& replica) {
  return pg::control(Side::target, "loading table states", [&] {
    std::vector<TableState> tables;
    pqxx::nontransaction tx(connection_);
    // Columns of later versions by name: whoever only reads does not migrate.
    for (auto row : tx.exec_params(
             "select source_oid, schema_name, table_name, inserts_only, boundary, floor_lsn, "
             "guard, guarded, coalesce(to_jsonb(t)->>'ledger', '') as ledger, coalesce(to_jsonb(t)->>'ledger_key', '') "
             "as ledger_key, phase, rows, bytes, bytes_total, note, "
             "coalesce(to_jsonb(t) ->> 'source_shape', '') as source_shape, "
             "coalesce(to_jsonb(t) ->> 'missing_rows', '0')::bigint as missing_rows, "
             "case when to_jsonb(t) ->> 'target_database' = (select oid::text from pg_catalog.pg_database where "
             "datname = "
             "current_database()) then to_jsonb(t) ->> 'target_oid' else '0' end as target_oid, "
             "coalesce(to_jsonb(t) ->> 'detached', 'f')::boolean as detached from pgbaton.table_state t "
             "where replica = $1 and generation = $2 order by schema_name, table_name",
             replica.name, replica.generation))
      tables.push_back(read_table(row));
    return tables;
  });
}

void Store::store_table(const Replica& replica, const TableState& table) {
  auto doing = "storing the state of " + table.name.quoted();
  pg::control(Side::target, doing, [&] {
    pqxx::work tx(connection_);
    require_one(tx.exec(copied_statement(replica, table)), replica, doing);
    tx.commit();
  });
}

void Store::finish_table(const Replica& replica, const TableState& table) {
  auto doing = "finishing " + table.name.quoted();
  pg::control(Side::target, doing, [&] {
    pqxx::work tx(connection_);
    require_one(tx.exec(copied_statement(replica, table)), replica, doing);
    tx.exec(event_statement(replica.name, "table_done",
                            {{"table", table.name.quoted()},
                             {"boundary", to_string(table.boundary)},
                             {"rows", std::to_string(table.rows)},
                             {"bytes", std::to_string(table.bytes)}}));
    tx.commit();
  });
}

void Store::store_observed(const Replica& replica, const TableState& table) {
  pg::control(Side::target, "storing what was seen of " + table.name.quoted(), [&] {
    pqxx::work tx(connection_);
    tx.exec(mine_cte(replica) +
            fmt::format("update pgbaton.table_state t set source_shape = {}, note = {} from mine where t.replica = {} "
                        "and t.generation = {} and t.schema_name = {} and t.table_name = {}",
                        shape_literal(table), quote_literal(table.note), quote_literal(replica.name),
                        quote_literal(replica.generation), quote_literal(table.name.schema),
                        quote_literal(table.name.name)));
    tx.commit();
  });
}

void Store::store_target_oids(const Replica& replica) {
  pg::control(Side::target, "recording which tables are meant", [&] {
    pqxx::work tx(connection_);
    tx.exec(mine_cte(replica) +
            fmt::format("update pgbaton.table_state t set target_oid = c.oid, target_database = d.oid from mine, "
                        "pg_catalog.pg_database d, "
                        "pg_catalog.pg_class c "
                        "join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
                        "where d.datname = current_database() and t.replica = {} and t.generation = {} and n.nspname = "
                        "t.schema_name "
                        "and c.relname = t.table_name and not (t.target_database = d.oid and exists (select from "
                        "pg_catalog.pg_class k where k.oid = t.target_oid))",
                        quote_literal(replica.name), quote_literal(replica.generation)));
    tx.commit();
  });
}

void Store::add_tables(const Replica& replica, const std::vector<TableState>& tables) {
  constexpr std::string_view kDoing = "recording tables that came later";
  pg::control(Side::target, kDoing, [&] {
    pqxx::work tx(connection_);
    const auto mine =
        tx.exec_params("select from pgbaton.replica where name = $1 and generation = $2 and epoch = $3 for share",
                       replica.name, replica.generation, replica.epoch);
    if (mine.size() != 1) throw_fenced(replica, kDoing);
    insert_table_rows(tx, replica, tables);
    tx.commit();
  });
}

Progress Store::load_progress(const Replica& replica) {
  return pg::control(Side::target, "loading progress", [&] {
    pqxx::nontransaction tx(connection_);
    // With several appliers the whole is as far as the slowest; pg_lsn has min() since 13 only, so sort.
    auto rows = tx.exec_params(
        "select applied_lsn, sum(transactions) over () as transactions, sum(changes) over () as changes, "
        "coalesce(extract(epoch from clock_timestamp() - max(source_commit_time) over ()), -1)::float8 as commit_age, "
        "coalesce(extract(epoch from clock_timestamp() - max(updated_at) over ()), -1)::float8 as updated_age, "
        "received_lsn, confirmed_lsn, coalesce(to_jsonb(p) ->> 'slot_restart_lsn', '0/0') as slot_restart_lsn, "
        "coalesce(to_jsonb(p) ->> 'tables_version', '0') as tables_version, "
        "coalesce(to_jsonb(p) ->> 'tables_obeyed', '0') as tables_obeyed from pgbaton.progress p where replica = $1 "
        "and generation = $2 "
        "order by applied_lsn limit 1",
        replica.name, replica.generation);
    Progress p;
    if (rows.empty()) return p;
    p.applied_lsn = require_lsn(rows[0]["applied_lsn"].c_str(), "pgbaton.progress.applied_lsn");
    p.transactions = rows[0]["transactions"].as<std::int64_t>();
    p.changes = rows[0]["changes"].as<std::int64_t>();
    p.commit_age_seconds = rows[0]["commit_age"].as<double>();
    p.updated_age_seconds = rows[0]["updated_age"].as<double>();
    p.received_lsn = require_lsn(rows[0]["received_lsn"].c_str(), "pgbaton.progress.received_lsn");
    p.confirmed_lsn = require_lsn(rows[0]["confirmed_lsn"].c_str(), "pgbaton.progress.confirmed_lsn");
    p.slot_restart_lsn = require_lsn(rows[0]["slot_restart_lsn"].c_str(), "pgbaton.progress.slot_restart_lsn");
    p.tables_version = rows[0]["tables_version"].as<std::int64_t>();
    p.tables_obeyed = rows[0]["tables_obeyed"].as<std::int64_t>();
    return p;
  });
}

std::int64_t Store::report_positions(const Replica& replica, Lsn received_lsn, Lsn confirmed_lsn, Lsn slot_restart_lsn,
                                     const Fields& report) {
  return pg::control(Side::target, "reporting positions", [&] {
    pqxx::work tx(connection_);
    auto touched = tx.exec_params(
        "update pgbaton.progress set received_lsn = $4::pg_lsn, confirmed_lsn = $5::pg_lsn, "
        "slot_restart_lsn = greatest(slot_restart_lsn, $6::pg_lsn), report = $7::json, reported_at = clock_timestamp() "
        "where replica = $1 and generation = $2 and epoch = $3 returning tables_version",
        replica.name, replica.generation, replica.epoch, to_string(received_lsn), to_string(confirmed_lsn),
        to_string(slot_restart_lsn), to_json(report));
    if (touched.empty()) throw_fenced(replica, "reporting positions");
    tx.commit();
    return touched[0][0].as<std::int64_t>();
  });
}

void Store::obey_tables(const Replica& replica, std::int64_t tables_version) {
  constexpr std::string_view kDoing = "recording which table states are obeyed";
  pg::control(Side::target, kDoing, [&] {
    pqxx::work tx(connection_);
    const auto touched = tx.exec_params(
        "update pgbaton.progress set tables_obeyed = $4 where replica = $1 and generation = $2 and epoch = $3",
        replica.name, replica.generation, replica.epoch, tables_version);
    if (touched.affected_rows() == 0) throw_fenced(replica, kDoing);
    tx.commit();
  });
}

void Store::report_copy(const std::string& name, const Fields& report) {
  pg::control(Side::target, "reporting the copy", [&] {
    pqxx::work tx(connection_);
    tx.exec_params(
        "update pgbaton.progress p set report = $2::json, reported_at = clock_timestamp() from pgbaton.replica r "
        "where p.replica = $1 and r.name = p.replica and r.generation = p.generation and r.epoch = p.epoch",
        name, to_json(report));
    tx.commit();
  });
}

Report Store::load_report(const Replica& replica) {
  return pg::control(Side::target, "loading the writer's report", [&] {
    pqxx::nontransaction tx(connection_);
    Report report;
    for (auto row : tx.exec_params(
             "select f.key, coalesce(f.value, ''), "
             "extract(epoch from clock_timestamp() - (to_jsonb(p) ->> 'reported_at')::timestamptz)::float8 "
             "from pgbaton.progress p, jsonb_each_text(to_jsonb(p) -> 'report') f "
             "where p.replica = $1 and p.generation = $2 and jsonb_typeof(to_jsonb(p) -> 'report') = 'object'",
             replica.name, replica.generation)) {
      report.values[row[0].as<std::string>()] = row[1].as<std::string>();
      report.age_seconds = row[2].as<double>();
    }
    return report;
  });
}

}  // namespace pgbaton::state
