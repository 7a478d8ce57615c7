#include "guard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pgbaton/base/name.hpp>

namespace pgbaton::apply::guard {

bool is_stored(GuardMode mode) {
  return !column(mode).empty();
}

bool is_compared(GuardMode mode) {
  return mode != GuardMode::none;
}

std::string column(GuardMode mode) {
  switch (mode) {
    case GuardMode::column:
      return quote_identifier(kGuardColumn);
    case GuardMode::ledger:
    case GuardMode::none:
      return {};
  }
  return {};
}

std::string not_newer(const TargetTable& table, std::string_view row, std::string_view commit_lsn) {
  switch (table.guard) {
    case GuardMode::column:
      return fmt::format(" AND {}.{} <= {}", row, column(table.guard), commit_lsn);
    case GuardMode::ledger: {
      std::vector<std::string> values;
      for (std::size_t i : table.key) values.push_back(fmt::format("{}.{}", row, table.columns[i].quoted));
      return " AND " + no_newer_entry(table, values, commit_lsn);
    }
    case GuardMode::none:
      return {};
  }
  return {};
}

std::string assignment(GuardMode mode, std::string_view commit_lsn) {
  if (!is_stored(mode)) return {};
  return fmt::format("{} = {}", column(mode), commit_lsn);
}

std::string ledger_keys(const TargetTable& table) {
  std::string names;
  for (std::size_t i = 1; i <= table.key.size(); ++i) names += fmt::format("{}k{}", i > 1 ? ", " : "", i);
  return names;
}

std::string ledger_match(const TargetTable& table, const std::vector<std::string>& values) {
  std::string terms;
  for (std::size_t i = 0; i < table.key.size(); ++i)
    terms += fmt::format("{}l.k{} {} {}", i > 0 ? " AND " : "", i + 1, table.columns[table.key[i]].equals, values[i]);
  return terms;
}

std::string no_newer_entry(const TargetTable& table, const std::vector<std::string>& values,
                           std::string_view commit_lsn) {
  return fmt::format("NOT EXISTS (SELECT FROM {} AS l WHERE {} AND l.commit_lsn > {})", table.ledger,
                     ledger_match(table, values), commit_lsn);
}

std::string enter(const TargetTable& table, const std::vector<std::string>& values, std::string_view commit_lsn,
                  bool deleted, std::string_view from) {
  const std::string keys = ledger_keys(table);
  return fmt::format(
      "INSERT INTO {} AS l ({}, commit_lsn, deleted) SELECT {}, {}, {}{} ON CONFLICT ({}) DO UPDATE SET commit_lsn = "
      "EXCLUDED.commit_lsn, deleted = EXCLUDED.deleted WHERE l.commit_lsn <= EXCLUDED.commit_lsn",
      table.ledger, keys, fmt::join(values, ", "), commit_lsn, deleted, from, keys);
}

}  // namespace pgbaton::apply::guard
