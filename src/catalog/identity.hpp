// Which tables can be published for updates and deletes without breaking the application (DESIGN 3, "Usable identity").
#pragma once
#include <pgbaton/catalog/table.hpp>

#include <string>
#include <vector>

namespace pgbaton::catalog {

// Of one table; columns in index order, empty where there is no such index that is valid and checked at once.
struct KeyFacts {
  std::vector<std::string> primary_key;
  std::vector<std::string> chosen_index;  // REPLICA IDENTITY USING INDEX
  bool primary_key_deferrable = false;
};

// Sets identity, identity_columns and identity_reason; for a partitioned table by its own primary key alone.
void decide_identity(Table& table, const KeyFacts& facts);
// Takes the identity away from partitioned tables that have a partition among `tables` without one: the source checks
// the partition that a row is in, and would refuse the application's UPDATE there.
void decide_partitioned_identities(std::vector<Table>& tables);

}  // namespace pgbaton::catalog
