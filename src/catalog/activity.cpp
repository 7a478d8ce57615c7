#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/embedded_sql.hpp>

namespace pgbaton::catalog {

std::vector<WriteCounts> load_write_counts(pg::Control& connection, const std::vector<std::uint32_t>& oids) {
  std::vector<WriteCounts> counts;
  if (oids.empty()) return counts;
  std::string array = "{";
  for (auto oid : oids) array += (array.size() > 1 ? "," : "") + std::to_string(oid);
  pqxx::nontransaction transaction(connection);
  for (auto row : transaction.exec_params("select schemaname, relname, n_tup_upd, n_tup_del from pg_stat_user_tables "
                                          "where relid = any($1::oid[]) and n_tup_upd + n_tup_del > 0 order by 1, 2",
                                          array + "}"))
    counts.push_back(
        {{row[0].as<std::string>(), row[1].as<std::string>()}, row[2].as<std::int64_t>(), row[3].as<std::int64_t>()});
  return counts;
}

namespace {

std::string text_or_empty(const pqxx::field& field) {
  return field.is_null() ? std::string() : field.as<std::string>();
}

std::string own_sessions(const std::string& replica_name) {
  return "pgbaton/" + replica_name + "/";
}

}  // namespace

std::optional<HeldSnapshot> load_held_snapshot(pg::Control& connection, const std::string& replica_name) {
  pqxx::nontransaction transaction(connection);
  const auto rows = transaction.exec_params(
      "select pid, role, extract(epoch from clock_timestamp() - xact_start)::float8, age(backend_xmin)::bigint "
      "from (select *, substr(application_name, length($1::text) + 1) as role from pg_catalog.pg_stat_activity "
      "where datname = current_database() and starts_with(application_name, $1)) a "
      "where backend_xmin is not null and xact_start is not null and role ~ '^(holder|copy-[0-9]+|verify|cut-source)$' "
      "order by xact_start limit 1",
      own_sessions(replica_name));
  if (rows.empty()) return std::nullopt;
  return HeldSnapshot{rows[0][0].as<int>(), rows[0][1].as<std::string>(), rows[0][2].as<double>(),
                      rows[0][3].as<std::int64_t>()};
}

std::vector<Waiting> load_waiting(pg::Control& connection, const std::string& replica_name) {
  std::vector<Waiting> all;
  pqxx::nontransaction transaction(connection);
  for (auto row : transaction.exec_params(std::string(sql::source_waiting), own_sessions(replica_name))) {
    if (!all.empty() && all.back().pid == row["pid"].as<int>()) continue;
    Waiting waiting;
    waiting.pid = row["pid"].as<int>();
    waiting.user = text_or_empty(row["user_name"]);
    waiting.database = text_or_empty(row["database"]);
    waiting.application_name = text_or_empty(row["application_name"]);
    waiting.query = text_or_empty(row["query"]);
    waiting.table = text_or_empty(row["table_name"]);
    waiting.mode = text_or_empty(row["mode"]);
    waiting.role = row["role"].as<std::string>();
    waiting.seconds = row["seconds"].as<double>();
    all.push_back(std::move(waiting));
  }
  return all;
}

}  // namespace pgbaton::catalog
