// The ledger: which key it is kept for, and the side table.
#include <pgbaton/embedded_sql.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <pgbaton/copy/finalize.hpp>

#include <algorithm>
#include <map>

#include "ddl.hpp"

namespace pgbaton::copy {
namespace {

bool is_sent(const catalog::Table& source, const std::string& name) {
  const auto* column = source.find_column(name);
  return column != nullptr && column->carried && column->generated == ' ';
}

// The columns by which the stream will find rows, in the order in which it sends them (stream/resolve.cpp): the
// identity's, or with REPLICA IDENTITY FULL the target's own key.
std::vector<std::string> ledger_key(const catalog::Table& source, const catalog::Table& target) {
  std::vector<std::string> wanted = source.identity_columns;
  if (source.identity != catalog::Identity::index) {
    const auto usable = [&](const auto& key) {
      return std::ranges::all_of(key, [&](const auto& name) { return is_sent(source, name); });
    };
    const auto found = std::ranges::find_if(target.unique_keys, usable);
    if (found == target.unique_keys.end()) return {};
    wanted = *found;
  }
  std::vector<std::string> key;
  for (const auto& column : source.columns)
    if (std::ranges::find(wanted, column.name) != wanted.end()) key.push_back(column.name);
  return key;
}

// `k1 integer NOT NULL, k2 text COLLATE "x"."y" NOT NULL`
std::string key_definitions(pg::Control& target, const catalog::Table& table, const std::vector<std::string>& key) {
  std::map<std::string, std::string> types;
  pqxx::nontransaction tx(target);
  for (auto row : tx.exec_params(
           "select a.attname, format_type(a.atttypid, -1) || coalesce((select format(' COLLATE %I.%I', n.nspname, "
           "c.collname) from pg_catalog.pg_collation c join pg_catalog.pg_namespace n on n.oid = c.collnamespace "
           "where c.oid = a.attcollation and a.attcollation <> t.typcollation), '') from pg_catalog.pg_attribute a "
           "join pg_catalog.pg_type t on t.oid = a.atttypid where a.attrelid = $1 and a.attnum > 0",
           table.oid))
    types[row[0].as<std::string>()] = row[1].as<std::string>();
  std::vector<std::string> definitions;
  for (const auto& name : key) definitions.push_back(fmt::format("k{} {}", definitions.size() + 1, types.at(name)));
  return fmt::format("{}", fmt::join(definitions, ", "));
}

std::string replaced(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values)
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  return text;
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const auto& name : names) quoted.push_back(quote_identifier(name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

}  // namespace

bool add_ledger(pg::Control& target, const std::string& replica, const catalog::Table& source,
                state::TableState& table) {
  const auto own = catalog::load_table(target, table.name, Side::target);
  const auto key = own ? ledger_key(source, *own) : std::vector<std::string>();
  if (key.empty()) return false;
  const auto doing = "making the ledger of " + table.name.quoted();
  const auto name = fmt::format("ledger_{}", own->oid);
  std::vector<std::string> numbers;
  for (std::size_t i = 1; i <= key.size(); ++i) numbers.push_back(fmt::format("k{}", i));
  const auto columns = pg::control(Side::target, doing, [&] { return key_definitions(target, *own, key); });
  alter(target, doing,
        replaced(std::string(sql::ledger_table), {{":ledger", quote_identifier(name)},
                                                  {":columns", columns},
                                                  {":keys", fmt::format("{}", fmt::join(numbers, ", "))},
                                                  {":'replica'", quote_literal(replica)}}));
  alter(target, doing, std::string(sql::target_schema_close));
  table.ledger = name;
  table.ledger_key = quoted_list(key);
  return true;
}

void drop_ledger(pg::Control& target, const std::string& ledger) {
  alter(target, "dropping the ledger " + ledger, "DROP TABLE IF EXISTS pgbaton." + quote_identifier(ledger));
}

}  // namespace pgbaton::copy
