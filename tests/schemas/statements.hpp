// Random statements and transactions on random tables.
#pragma once
#include <string>
#include <vector>

#include "table.hpp"

namespace pgbaton::schemas {

// One statement, or a COPY with rows that the server computes first.
struct Step {
  std::string sql;             // a statement; of a COPY: "copy … from stdin"
  std::string copy_rows = {};  // of a COPY: a query that yields its rows as text
};
using Transaction = std::vector<Step>;

std::string insert_rows(Random& random, const Table& table, int rows, bool conflicts);
Transaction any_transaction(Random& random, const std::vector<Table>& tables);

}  // namespace pgbaton::schemas
