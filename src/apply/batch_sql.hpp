// SQL text of the set-based statements. Parameter n is the array of values of columns[n-1]; the guard, where the table
// stores one, is the last parameter: an array for updates and inserts, one LSN for deletes. With a ledger none of these
// compares anything: enter_statement() goes first, and its count says whether some key has a newer entry.
//
// Why one LSN is enough for deletes: in an in-order stream every row of the table carries a guard that is at most the
// first commit LSN of the step. A row that does not is counted as missing, and the change-by-change strategy looks.
#pragma once
#include <pgbaton/apply/table.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::apply {

enum class GuardParameter { none, one, array };

struct BatchStatement {
  std::string sql;
  std::vector<std::size_t> columns;
  GuardParameter guard = GuardParameter::none;
};

// `scope`: the table as UPDATE and DELETE name it, `ONLY "s"."t"` unless it is partitioned.
BatchStatement delete_statement(const TargetTable& table, std::string_view scope);
// Sets `mask`. A mask that leaves nothing to set (only key columns, no guard) gives an empty sql: nothing is to be
// done.
BatchStatement update_statement(const TargetTable& table, std::string_view scope, const std::vector<std::size_t>& mask);
BatchStatement insert_statement(const TargetTable& table);
// Enters the keys of rows into the table's ledger.
BatchStatement enter_statement(const TargetTable& table, bool deleted);
// COPY … FROM STDIN; the guard is the last field.
std::string copy_statement(const TargetTable& table, bool binary);

// Whether values of the column can be one typed array parameter that unnest() takes apart: built-in types that are no
// arrays themselves (unnest would flatten them), whose array delimiter is the comma (not box). Extension types may have
// any delimiter. All others travel as text[] and are cast one by one.
bool has_typed_array(const TargetColumn& column);

}  // namespace pgbaton::apply
