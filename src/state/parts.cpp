// Parts of a table that is copied by several workers: pgbaton.copy_part.
#include <fmt/format.h>

#include "fence.hpp"

namespace pgbaton::state {

namespace {

std::string of_table(const Replica& replica, const QualifiedName& table) {
  return fmt::format("replica = {} and schema_name = {} and table_name = {}", quote_literal(replica.name),
                     quote_literal(table.schema), quote_literal(table.name));
}

}  // namespace

std::string Store::plan_parts_statement(const Replica& replica, const QualifiedName& table,
                                        const std::vector<CopyPart>& parts) {
  std::string values;
  for (const auto& part : parts)
    values += fmt::format("{}({}::integer, {}::bigint, {}::bigint)", values.empty() ? "" : ", ", part.number,
                          part.first_block, part.end_block ? std::to_string(*part.end_block) : "null");
  return mine_cte(replica) +
         fmt::format(
             "insert into pgbaton.copy_part (replica, schema_name, table_name, part, first_block, end_block) "
             "select {}, {}, {}, p.* from mine, (values {}) p",
             quote_literal(replica.name), quote_literal(table.schema), quote_literal(table.name), values);
}

std::string Store::record_part_statement(const Replica& replica, const QualifiedName& table, const CopyPart& part) {
  return mine_cte(replica) +
         fmt::format(
             "update pgbaton.copy_part set rows = {}, bytes = {}, done = true from mine where {} and part = {} and "
             "not done",
             part.rows, part.bytes, of_table(replica, table), part.number);
}

std::string Store::forget_parts_statement(const Replica& replica, const QualifiedName& table) {
  return "delete from pgbaton.copy_part where " + of_table(replica, table);
}

std::string Store::part_recorded_query(const Replica& replica, const QualifiedName& table, int part) {
  return fmt::format(
      "select exists (select from pgbaton.copy_part where {0} and part = {1} and done) or exists (select from "
      "pgbaton.table_state where {0} and phase <> 'copying')",
      of_table(replica, table), part);
}

std::map<QualifiedName, CopiedParts> Store::load_copied_parts(const std::string& name) {
  return pg::control(Side::target, "loading the parts of tables", [&] {
    std::map<QualifiedName, CopiedParts> tables;
    pqxx::nontransaction tx(connection_);
    for (auto row :
         tx.exec_params("select schema_name, table_name, count(*) filter (where done) as done, count(*) as total, "
                        "coalesce(sum(rows) filter (where done), 0)::bigint as rows, "
                        "coalesce(sum(bytes) filter (where done), 0)::bigint as bytes "
                        "from pgbaton.copy_part where replica = $1 group by 1, 2",
                        name))
      tables[{row["schema_name"].as<std::string>(), row["table_name"].as<std::string>()}] = {
          row["done"].as<std::int64_t>(), row["total"].as<std::int64_t>(), row["rows"].as<std::int64_t>(),
          row["bytes"].as<std::int64_t>()};
    return tables;
  });
}

}  // namespace pgbaton::state
