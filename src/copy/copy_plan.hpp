// How one table is copied: the statements, and whether its values may pass in binary.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/copy/parts.hpp>
#include <pgbaton/pg/connection.hpp>

#include <string>
#include <vector>

namespace pgbaton::copy {

// A table of the target as far as a copy must know it.
struct TargetColumn {
  std::string name;
  catalog::Oid type_oid = 0;
  bool binary = false;  // a built-in base or range type whose binary form means the same on every server of its major
};
struct TargetTable {
  char kind = 'r';
  bool referenced = false;  // by a foreign key of another table: TRUNCATE would be refused
  std::vector<TargetColumn> columns;
  bool keep_readers = false;  // who reads it while it is copied is not to wait, and sees the old rows
};

// Error(rejected) when there is no such table.
TargetTable load_target_table(pg::Connection& target, const QualifiedName& name);

struct CopyPlan {
  bool columnless = false;  // COPY has no form for a table without columns that can be written
  bool binary = false;
  std::string probe;  // on the source: no rows, but says which relation and columns the names mean now
  std::string clear;  // on the target, first statement of the transaction
  std::string read;   // COPY … TO STDOUT of table or range, or SELECT count(*) when columnless
  std::string write;  // COPY … FROM STDIN; INSERT of that many rows when columnless, the number appended by the caller
  std::vector<const catalog::Column*> columns;  // of `table`, which must outlive the plan
};

// Error(rejected) for a column that the target does not have. `range` for a part of a table that the caller has
// emptied.
CopyPlan plan_copy(const catalog::Table& table, const TargetTable& target, bool allow_binary,
                   const BlockRange* range = nullptr);
// TRUNCATE, or what does the same where that is refused or would keep readers waiting.
std::string clear_statement(const QualifiedName& name, const TargetTable& target);
// For a statement of state that touched no row.
Error fenced();

}  // namespace pgbaton::copy
