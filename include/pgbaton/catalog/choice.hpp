// Which columns and rows of a table are carried (TableChoice), marked in its description: Column::carried,
// Table::has_column_list, Table::row_filter.
#pragma once
#include <pgbaton/catalog/table.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::catalog {

// Error(usage) for a name that is none of `tables` or no column of its table, and for a choice that cannot work: a
// column list without the identity's columns, without a NOT NULL column that has no default, or beside REPLICA IDENTITY
// FULL.
void apply_choices(std::vector<Table>& tables, const std::vector<TableChoice>& choices);
// The choices among the options that a replica was begun with (pgbaton.replica.options); none in what is no such JSON.
std::vector<TableChoice> recorded_choices(const std::string& options_json);
// The same choice for a newer description of the same table: columns that came later are not in a list.
void keep_choice(const Table& from, Table& to);
bool has_choice(const Table& table);
// "(a, b) WHERE (condition)", as CREATE PUBLICATION takes it; "" without a choice.
std::string publication_detail(const Table& table);

// Describes a table as it will be with REPLICA IDENTITY FULL. False, and nothing is changed, where that is of no use.
bool assume_full_identity(Table& table);

// Error(usage) that begins with `origin`, unless the text can stand in brackets of its own as an SQL condition: quotes,
// comments and brackets are closed, and no semicolon ends it. `a) OR (b` would be valid in brackets and mean another
// thing beside an AND.
void require_condition(std::string_view text, std::string_view origin);
// "(condition\n)": it may end in a comment.
std::string bracketed(std::string_view condition);

}  // namespace pgbaton::catalog
