// Tables that were renamed on both sides are known by their new names from then on.
#include <pgbaton/state/store.hpp>

#include <fmt/format.h>

namespace pgbaton::state {

namespace {

// Names that exchange would meet each other on the way.
std::string on_the_way(const QualifiedName& name) {
  return "\x01" + name.name;
}

void rename(pqxx::work& tx, const Replica& replica, const QualifiedName& from, const QualifiedName& to,
            const std::string& from_name, const std::string& to_name) {
  for (const char* table : {"table_state", "tombstone", "tombstone_hold", "copy_part", "doubt"})
    tx.exec_params(fmt::format("update pgbaton.{} set schema_name = $4, table_name = $5 where replica = $1 and "
                               "schema_name = $2 and table_name = $3",
                               table),
                   replica.name, from.schema, from_name, to.schema, to_name);
}

}  // namespace

void Store::rename_tables(const Replica& replica, const std::vector<Rename>& renames) {
  if (renames.empty()) return;
  pg::control(Side::target, "recording new names of tables", [&] {
    pqxx::work tx(connection_);
    // The row that every apply transaction locks last; who has read the tables before can commit nothing afterwards.
    const auto version = tx.exec_params(
        "update pgbaton.progress set tables_version = tables_version + 1 where replica = $1 and generation = $2",
        replica.name, replica.generation);
    if (version.affected_rows() == 0) return;
    for (const auto& [from, to] : renames) rename(tx, replica, from, from, from.name, on_the_way(from));
    for (const auto& [from, to] : renames) rename(tx, replica, from, to, on_the_way(from), to.name);
    tx.commit();
  });
}

}  // namespace pgbaton::state
