// From rows of the catalogs to Table values. What the rows are is said in queries.hpp.
#include <fmt/format.h>
#include <pgbaton/catalog/table.hpp>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "identity.hpp"
#include "names.hpp"
#include "queries.hpp"

namespace pgbaton::catalog {
namespace {

using Transaction = pqxx::transaction<pqxx::repeatable_read, pqxx::read_only>;
using TableMap = std::unordered_map<Oid, Table*>;

std::string oid_array(const std::vector<Oid>& oids) {
  return fmt::format("{{{}}}", fmt::join(oids, ","));
}

pqxx::result query(Transaction& transaction, const std::string& sql, const std::vector<Oid>& oids) {
  if (oids.empty()) return transaction.exec_params(sql, static_cast<const char*>(nullptr));
  return transaction.exec_params(sql, oid_array(oids));
}

char letter(const pqxx::row& row, const char* name) {
  const auto* text = row[name].c_str();
  return *text == '\0' ? ' ' : *text;
}

Table read_table(const pqxx::row& row) {
  Table table;
  table.oid = row["oid"].as<Oid>();
  table.name = {row["schema"].as<std::string>(), row["name"].as<std::string>()};
  table.kind = letter(row, "kind");
  table.persistence = letter(row, "persistence");
  table.replica_identity = letter(row, "replica_identity");
  table.attribute_count = row["attribute_count"].as<int>();
  table.parent_oid = row["parent_oid"].as<Oid>();
  table.root_oid = row["root_oid"].as<Oid>();
  table.parents = row["parents"].as<std::string>();
  table.is_partition = table.parent_oid != 0;
  table.has_children = row["has_children"].as<bool>();
  table.row_type_in_use = row["typed"].as<bool>();
  table.bytes = row["bytes"].as<std::uint64_t>();
  table.heap_blocks = row["heap_blocks"].as<std::uint64_t>();
  table.filenode = row["filenode"].as<Oid>();
  table.estimated_rows = row["estimated_rows"].as<double>();
  return table;
}

Column read_column(const pqxx::row& row) {
  Column column;
  column.name = row["name"].as<std::string>();
  column.number = row["number"].as<int>();
  column.version = row["version"].as<std::string>();
  column.type_oid = row["type_oid"].as<Oid>();
  column.type = {row["type_schema"].as<std::string>(), row["type_name"].as<std::string>()};
  column.cast_type = row["cast_type"].as<std::string>();
  column.full_type = row["full_type"].as<std::string>();
  column.has_own_text_cast = row["has_own_text_cast"].as<bool>();
  column.has_own_cast_from_text = row["has_own_cast_from_text"].as<bool>();
  column.type_is_array = row["is_array"].as<bool>();
  column.type_is_integer = row["is_integer"].as<bool>();
  column.not_null = row["not_null"].as<bool>();
  column.has_default = row["has_default"].as<bool>();
  column.identity = letter(row, "identity");
  column.generated = letter(row, "generated");
  column.fixed_bytes = row["fixed_bytes"].as<int>();
  return column;
}

void load_columns(Transaction& transaction, const TableMap& by_oid, const std::vector<Oid>& lookup_only, int version) {
  std::set<Oid> types;
  for (const auto& row : query(transaction, columns_query(version), lookup_only)) {
    const auto found = by_oid.find(row["table_oid"].as<Oid>());
    if (found == by_oid.end()) continue;
    auto& table = *found->second;
    table.columns.push_back(read_column(row));
    types.insert(table.columns.back().type_oid);
    if (table.columns.back().name == kGuardColumn) table.has_guard_column = true;
  }
  if (types.empty()) return;
  std::set<Oid> unequal;
  for (const auto& row : query(transaction, types_without_equality_query(version), {types.begin(), types.end()})) {
    unequal.insert(row[0].as<Oid>());
  }
  for (const auto& [oid, table] : by_oid) {
    for (auto& column : table->columns) column.has_equality = !unequal.contains(column.type_oid);
  }
}

bool all_not_null(const Table& table, const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [&](const auto& name) {
    const auto* column = table.find_column(name);
    return column != nullptr && column->not_null;
  });
}

std::unordered_map<Oid, KeyFacts> load_keys(Transaction& transaction, const TableMap& by_oid,
                                            const std::vector<Oid>& lookup_only) {
  std::unordered_map<Oid, KeyFacts> facts;
  for (const auto& row : query(transaction, unique_indexes_query(), lookup_only)) {
    const auto found = by_oid.find(row["table_oid"].as<Oid>());
    if (found == by_oid.end()) continue;
    auto& table = *found->second;
    auto names = read_names(row["columns"]);
    const bool partial = row["is_partial"].as<bool>();
    if (row["is_primary"].as<bool>()) facts[table.oid].primary_key = names;
    if (row["is_identity"].as<bool>() && !partial) facts[table.oid].chosen_index = names;
    // A temporal key (WITHOUT OVERLAPS, 18) is an exclusion constraint: ON CONFLICT … DO UPDATE may not name it.
    if (!partial && !row["is_exclusion"].as<bool>() && all_not_null(table, names)) {
      table.unique_keys.push_back(std::move(names));
    }
  }
  for (const auto& row : query(transaction, deferrable_keys_query(), lookup_only)) {
    facts[row[0].as<Oid>()].primary_key_deferrable = true;
  }
  return facts;
}

std::vector<Table> read_tables(pg::Control& connection, const std::vector<Oid>& lookup_only) {
  const int version = connection.server_version();
  Transaction transaction(connection);
  std::vector<Table> tables;
  for (const auto& row : query(transaction, tables_query(version), lookup_only)) tables.push_back(read_table(row));
  TableMap by_oid;
  for (auto& table : tables) by_oid.emplace(table.oid, &table);
  load_columns(transaction, by_oid, lookup_only, version);
  const auto facts = load_keys(transaction, by_oid, lookup_only);
  for (const auto& row : transaction.exec(row_types_in_use_query(version))) {
    const auto found = by_oid.find(row[0].as<Oid>());
    if (found != by_oid.end()) found->second->row_type_in_use = true;
  }
  for (auto& table : tables) {
    const auto found = facts.find(table.oid);
    decide_identity(table, found == facts.end() ? KeyFacts{} : found->second);
  }
  return tables;
}

// Adds what decides the identity of a partitioned table looked up alone: its partitions.
std::vector<Oid> with_partitions(pg::Control& connection, const std::vector<Oid>& oids) {
  pqxx::nontransaction transaction(connection);
  std::vector<Oid> all;
  const auto rows = transaction.exec_params(R"(
with recursive down as (
  select unnest($1::oid[]) as oid
  union
  select i.inhrelid from down join pg_class c on c.oid = down.oid and c.relkind = 'p'
                         join pg_inherits i on i.inhparent = down.oid
)
select oid::bigint from down)",
                                            oid_array(oids));
  for (const auto& row : rows) all.push_back(row[0].as<Oid>());
  return all;
}

}  // namespace

const Column* Table::find_column(std::string_view column_name) const {
  const auto found = std::ranges::find(columns, column_name, &Column::name);
  return found == columns.end() ? nullptr : &*found;
}

std::vector<Table> load_tables(pg::Control& connection, const std::vector<Oid>& lookup_only, Side side) {
  return pg::control(side, "reading the tables", [&] {
    auto tables = read_tables(connection, lookup_only.empty() ? lookup_only : with_partitions(connection, lookup_only));
    decide_partitioned_identities(tables);
    if (!lookup_only.empty()) {
      const std::set<Oid> wanted(lookup_only.begin(), lookup_only.end());
      std::erase_if(tables, [&](const Table& table) { return !wanted.contains(table.oid); });
    }
    return tables;
  });
}

std::optional<Table> load_table(pg::Control& connection, const QualifiedName& name, Side side) {
  const auto oid = pg::control(side, "looking up " + name.quoted(), [&]() -> std::optional<Oid> {
    pqxx::nontransaction transaction(connection);
    const auto rows = transaction.exec_params(
        "select c.oid::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = $1 and c.relname = $2",
        name.schema, name.name);
    if (rows.empty()) return std::nullopt;
    return rows[0][0].as<Oid>();
  });
  if (!oid) return std::nullopt;
  auto tables = load_tables(connection, {*oid}, side);
  if (tables.empty()) return std::nullopt;
  return std::move(tables.front());
}

}  // namespace pgbaton::catalog
