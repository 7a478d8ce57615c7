#include "identity.hpp"

#include <fmt/format.h>
#include <pgbaton/catalog/choice.hpp>

#include <algorithm>
#include <unordered_map>

namespace pgbaton::catalog {
namespace {

void refuse(Table& table, std::string reason) {
  table.identity = Identity::unusable;
  table.identity_columns.clear();
  table.identity_reason = std::move(reason);
}

const Column* first_generated(const Table& table, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto* column = table.find_column(name);
    if (column != nullptr && column->generated != ' ') return column;
  }
  return nullptr;
}

// On 18 the application's UPDATE fails, on 12 to 17 the key would arrive as NULL.
void use_index(Table& table, const std::vector<std::string>& names, std::string_view what) {
  if (const auto* column = first_generated(table, names)) {
    refuse(table, fmt::format("column {} of its {} is generated", quote_identifier(column->name), what));
    return;
  }
  table.identity = Identity::index;
  table.identity_columns = names;
}

void use_primary_key(Table& table, const KeyFacts& facts) {
  if (!facts.primary_key.empty()) {
    use_index(table, facts.primary_key, "primary key");
  } else if (facts.primary_key_deferrable) {
    refuse(table, "its primary key is deferrable");
  } else {
    refuse(table, "it has no primary key");
  }
}

void use_full(Table& table) {
  const auto generated = std::ranges::find_if(table.columns, [](const Column& c) { return c.generated != ' '; });
  if (generated != table.columns.end()) {
    refuse(table, fmt::format("REPLICA IDENTITY FULL with a generated column {}", quote_identifier(generated->name)));
    return;
  }
  table.identity = Identity::full;
}

}  // namespace

void decide_identity(Table& table, const KeyFacts& facts) {
  // What a partitioned table's own REPLICA IDENTITY says is used by nobody: changes carry that of their partition.
  if (table.kind == 'p') return use_primary_key(table, facts);
  switch (table.replica_identity) {
    case 'f':
      return use_full(table);
    case 'i':
      if (facts.chosen_index.empty()) return refuse(table, "the index of its REPLICA IDENTITY is gone or not valid");
      return use_index(table, facts.chosen_index, "replica identity index");
    case 'n':
      return refuse(table, "REPLICA IDENTITY NOTHING");
    case 'd':
      return use_primary_key(table, facts);
  }
  refuse(table, fmt::format("its replica identity '{}' is not known", table.replica_identity));
}

bool assume_full_identity(Table& table) {
  Table altered = table;
  altered.replica_identity = 'f';
  use_full(altered);
  if (altered.identity != Identity::full) return false;
  altered.identity_reason.clear();
  table = std::move(altered);
  return true;
}

void decide_partitioned_identities(std::vector<Table>& tables) {
  std::unordered_map<Oid, Table*> by_oid;
  for (auto& table : tables) by_oid.emplace(table.oid, &table);
  for (const auto& leaf : tables) {
    if (leaf.kind == 'p' || leaf.identity != Identity::unusable) continue;
    for (auto at = by_oid.find(leaf.parent_oid); at != by_oid.end(); at = by_oid.find(at->second->parent_oid)) {
      if (at->second->identity == Identity::unusable) continue;
      refuse(*at->second, fmt::format("partition {}: {}", leaf.name.quoted(), leaf.identity_reason));
    }
  }
}

}  // namespace pgbaton::catalog
