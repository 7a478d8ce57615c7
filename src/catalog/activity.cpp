#include <pgbaton/catalog/activity.hpp>

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

}  // namespace pgbaton::catalog
