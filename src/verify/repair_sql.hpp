// Statements of a repair, for people to read: values stand in them as literals.
#pragma once
#include <pgbaton/base/lsn.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "table_plan.hpp"

namespace pgbaton::verify {

using RowTexts = std::vector<std::optional<std::string>>;

// ("a", "b") IN ((…, …), …)
std::string key_condition(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys);
// Every compared column as text, of the rows with these keys.
std::string select_rows(const TablePlan& plan, Where where, const std::vector<RowTexts>& keys);
std::string delete_keys(const TablePlan& plan, const std::vector<RowTexts>& keys);
std::string insert_rows(const TablePlan& plan, const std::vector<RowTexts>& rows, Lsn cut_lsn);
// Sets every compared column of the row with the row's key: for a target with columns of its own, which stay.
std::string update_row(const TablePlan& plan, const RowTexts& row, Lsn cut_lsn);
// Removes so many rows of each key hash (of a table without key: of exactly the same row).
std::string delete_copies(const TablePlan& plan, const std::map<std::int64_t, std::int64_t>& counts);

}  // namespace pgbaton::verify
