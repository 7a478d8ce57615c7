// How far the restore of the definitions has come, where one transaction cannot hold it: each part is an event of the
// replica, written by the transaction that makes its objects and gone with the last one.
#include <pgbaton/state/store.hpp>

#include <fmt/format.h>

#include "fence.hpp"

namespace pgbaton::state {

std::string Store::schema_part_statement(const Replica& replica, const std::vector<std::string>& fingerprints) {
  std::string list;
  for (const auto& print : fingerprints) list += (list.empty() ? "\"" : ",\"") + print + '"';
  return mine_cte(replica) +
         fmt::format("insert into pgbaton.event (replica, kind, detail) select {}, {}, {}::json from mine",
                     quote_literal(replica.name), quote_literal(kSchemaPart), quote_literal("[" + list + "]"));
}

std::string Store::schema_restored_statement(const Replica& replica) {
  return fmt::format(
      "with parts as (delete from pgbaton.event where replica = {0} and kind = {1}) "
      "update pgbaton.replica set schema_restored = true where name = {0} and generation = {2} and epoch = {3}",
      quote_literal(replica.name), quote_literal(kSchemaPart), quote_literal(replica.generation), replica.epoch);
}

std::set<std::string> Store::load_schema_parts(const std::string& name) {
  return pg::control(Side::target, "loading what is restored of the definitions", [&] {
    std::set<std::string> fingerprints;
    pqxx::nontransaction tx(connection_);
    for (auto row :
         tx.exec_params("select json_array_elements_text(detail) from pgbaton.event where replica = $1 and kind = $2",
                        name, std::string(kSchemaPart)))
      fingerprints.insert(row[0].as<std::string>());
    return fingerprints;
  });
}

}  // namespace pgbaton::state
