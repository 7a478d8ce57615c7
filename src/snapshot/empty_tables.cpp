#include "empty_tables.hpp"

#include "preflight.hpp"

namespace pgbaton::snapshot {

namespace {

// Foreign keys between recorded tables; they would keep them from being emptied and come back with the next build.
void drop_foreign_keys(pqxx::work& tx, const std::string& name) {
  auto keys = tx.exec_params(
      "select format('alter table %I.%I drop constraint %I', n.nspname, c.relname, k.conname) from "
      "pg_catalog.pg_constraint k join pg_catalog.pg_class c on c.oid = k.conrelid "
      "join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_class f on f.oid = k.confrelid "
      "join pg_catalog.pg_namespace m on m.oid = f.relnamespace where k.contype = 'f' and k.conparentid = 0 "
      "and exists (select from pgbaton.table_state t where t.replica = $1 and t.schema_name = n.nspname and "
      "t.table_name = c.relname) and exists (select from pgbaton.table_state t where t.replica = $1 and "
      "t.schema_name = m.nspname and t.table_name = f.relname)",
      name);
  for (auto row : keys) tx.exec(row[0].as<std::string>());
}

}  // namespace

void empty_tables(pg::Control& target, const state::Replica& replica, const std::vector<state::TableState>& tables) {
  pg::control(Side::target, "emptying the tables of the replica", [&] {
    pqxx::work tx(target);
    if (replica.schema_restored) drop_foreign_keys(tx, replica.name);
    std::string list;
    for (const auto& table : tables) {
      if (table.phase == state::TablePhase::skipped) continue;
      auto kind = tx.exec_params("select relkind from pg_class where oid = to_regclass($1)", table.name.quoted());
      if (!kind.empty()) list += (list.empty() ? "" : ", ") + own_rows(table.name, *kind[0][0].c_str());
    }
    if (!list.empty()) tx.exec("truncate " + list);
    tx.commit();
  });
}

}  // namespace pgbaton::snapshot
