#include <fmt/format.h>
#include <pgbaton/catalog/relation.hpp>

namespace pgbaton::catalog {

std::map<Oid, Relation> load_relations(pg::Control& connection, const std::vector<Oid>& oids, Side side) {
  std::map<Oid, Relation> found;
  if (oids.empty()) return found;
  pg::control(side, "reading what tables are called now", [&] {
    pqxx::nontransaction tx(connection);
    for (const auto& row :
         tx.exec_params("select c.oid::bigint, n.nspname, c.relname, c.relkind from pg_catalog.pg_class c join "
                        "pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = any ($1::oid[])",
                        fmt::format("{{{}}}", fmt::join(oids, ","))))
      found[row[0].as<Oid>()] = {{row[1].as<std::string>(), row[2].as<std::string>()}, *row[3].c_str()};
  });
  return found;
}

}  // namespace pgbaton::catalog
