// Statements of a repair, for people to read: values stand in them as literals of their column's type, so that no cast
// between types has a say. The table is t in all of them.
#pragma once
#include <pgbaton/base/lsn.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "table_plan.hpp"

namespace pgbaton::verify {

using RowTexts = std::vector<std::optional<std::string>>;
// A row of a table without key, by its hash and all its texts.
using WholeRow = std::pair<std::int64_t, RowTexts>;

// Rows of `alias` with one of these keys, by the equality of the key's own index: never looked up in a search_path.
std::string key_condition(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys,
                          std::string_view alias = "t");
// "(id)=(7)", for people.
std::string key_text(const TablePlan& plan, const RowTexts& key);
// The columns of the key as text, of `t`.
std::string key_texts(const TablePlan& plan, Where where);
// Every compared column as text, of the rows with these keys; or how many there are.
std::string select_rows(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys);
std::string count_rows(const TablePlan& plan, const std::vector<RowTexts>& keys);
std::string delete_keys(const TablePlan& plan, const std::vector<RowTexts>& keys);
std::string insert_rows(const TablePlan& plan, const std::vector<RowTexts>& rows, Lsn cut_lsn);
// Sets these columns (indexes into the plan's) of the rows with the keys of `rows`, and the guard.
std::string update_rows(const TablePlan& plan, const std::vector<std::size_t>& columns,
                        const std::vector<RowTexts>& rows, Lsn cut_lsn);
// Removes so many copies of each row of a table without key: rows whose every text is the same, not only the hash.
std::string delete_copies(const TablePlan& plan, const std::map<WholeRow, std::int64_t>& counts);

}  // namespace pgbaton::verify
