#include "statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pgbaton::schemas {
namespace {

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string value(Random& random, const Column& column) {
  if (!column.reference.empty()) return chance(random, 50) ? "null" : column.reference;
  const bool domain_refuses_null = column.type->name == std::string("label");
  if (!column.key && column.name != kChooser && !domain_refuses_null && chance(random, 12)) return "null";
  return column.type->value(random);
}

// What an INSERT names. Identity columns and those with a default are left out at times.
std::vector<const Column*> insertable(Random& random, const Table& table) {
  std::vector<const Column*> list;
  for (const auto& column : table.columns) {
    if (column.generated) continue;
    const bool optional = column.identity || (!column.key && column.name != kChooser);
    if (!optional || !chance(random, 15)) list.push_back(&column);
  }
  return list;
}

std::string turn_value(Random& random) {
  return chance(random, 30) ? "null" : std::to_string(pick(random, 1, 400));
}

std::string area_value(Random& random) {
  const int low = pick(random, 1, 800);
  return chance(random, 30) ? "null" : fmt::format("int4range({}, {})", low, low + pick(random, 1, 4));
}

std::string row(Random& random, const Table& table, const std::vector<const Column*>& columns) {
  std::vector<std::string> values;
  for (const auto* column : columns)
    values.push_back(column->name == table.turn   ? turn_value(random)
                     : column->name == table.area ? area_value(random)
                                                  : value(random, *column));
  return join(values);
}

std::string names(const std::vector<const Column*>& columns) {
  std::vector<std::string> list;
  for (const auto* column : columns) list.push_back(column->name);
  return join(list);
}

// The table, one of its leaves, or a child.
std::string place(Random& random, const Table& table) {
  if (!table.children.empty() && chance(random, 30)) return any_of(random, table.children);
  return table.name;
}

std::string conflict_clause(Random& random, const Table& table) {
  if (!table.keyed()) return "";  // a deferrable constraint is no arbiter
  if (!chance(random, 30)) return fmt::format(" on conflict ({}) do nothing", names(table.keys()));
  const auto plain = table.plain();
  const auto& column = *any_of(random, plain);
  return fmt::format(" on conflict ({}) do update set {} = excluded.{}", names(table.keys()), column.name, column.name);
}

std::string where(Random& random, const Table& table) {
  const auto keys = table.keys();
  if (!keys.empty() && chance(random, 50)) {
    const auto& key = *any_of(random, keys);
    return fmt::format("{} = {}", key.name, key.type->value(random));
  }
  const int low = pick(random, 1, 60);
  return fmt::format("{} between {} and {}", kChooser, low, low + pick(random, 0, 6));
}

// At most so many of them, whatever else is equal.
std::string few(const std::string& place, const std::string& condition, int rows) {
  return fmt::format("(tableoid, ctid) in (select tableoid, ctid from {} where {} order by tableoid, ctid limit {})",
                     place, condition, rows);
}

std::string update(Random& random, const Table& table) {
  std::vector<std::string> sets;
  for (const auto* column : table.plain()) {
    if (!chance(random, 35)) continue;
    sets.push_back(column->name + " = " + (chance(random, 15) ? column->name : value(random, *column)));
  }
  if (sets.empty()) sets.push_back(fmt::format("{0} = {0}", kChooser));
  const auto from = place(random, table);
  return fmt::format("update {} set {} where {}", from, join(sets), where(random, table));
}

std::string update_key(Random& random, const Table& table) {
  const auto keys = table.keys();
  if (keys.empty()) return update(random, table);
  const auto& key = *any_of(random, keys);
  const auto from = place(random, table);
  const auto condition = few(from, where(random, table), pick(random, 1, 2));
  if (key.always) return fmt::format("update {} set {} = default where {}", from, key.name, condition);
  std::string to = key.type->value(random);
  if (key.type->respell != nullptr && chance(random, 70)) to = fmt::format(fmt::runtime(key.type->respell), key.name);
  std::string more;
  if (chance(random, 30)) {
    const auto plain = table.plain();
    const auto& column = *any_of(random, plain);
    more = fmt::format(", {} = {}", column.name, value(random, column));
  }
  return fmt::format("update {} set {} = {}{} where {}", from, key.name, to, more, condition);
}

// Ranges that exclude each other are put aside and come back mirrored: each is free of the others only in the end.
Transaction mirror_areas(Random& random, const Table& table) {
  const int low = pick(random, 1, 700), high = low + pick(random, 20, 200);
  return {{fmt::format("update {} set area = int4range(lower(area) + 5000, upper(area) + 5000) where area <@ "
                       "int4range({}, {})",
                       table.name, low, high)},
          {fmt::format("update {} set area = int4range({} - (upper(area) - 5000), {} - (lower(area) - 5000)) where "
                       "lower(area) > 5000",
                       table.name, low + high, low + high)}};
}

// Two integers change places: of a key, or of a unique column.
Transaction swap(Random& random, const Table& table) {
  if (!table.area.empty() && chance(random, 60)) return mirror_areas(random, table);
  std::string column = table.turn;
  const auto keys = table.keys();
  if (column.empty() && keys.size() == 1 && keys[0]->type == &integer_type() && !keys[0]->always)
    column = keys[0]->name;
  if (column.empty()) return {{update_key(random, table)}};
  const int a = pick(random, 1, 60), b = pick(random, 1, 60);
  if (chance(random, 30))  // fails unless it is deferrable
    return {{fmt::format("update {0} set {1} = case {1} when {2} then {3} else {2} end where {1} in ({2}, {3})",
                         table.name, column, a, b)}};
  return {{fmt::format("update {0} set {1} = -1000 - {1} where {1} in ({2}, {3})", table.name, column, a, b)},
          {fmt::format("update {0} set {1} = case when {1} = -1000 - {2} then {3} else {2} end where {1} in (-1000 - "
                       "{2}, -1000 - {3})",
                       table.name, column, a, b)}};
}

std::string remove(Random& random, const Table& table) {
  const auto from = place(random, table);
  return fmt::format("delete from {} where {}", from, few(from, where(random, table), pick(random, 1, 4)));
}

// Deleted and inserted again in one transaction, as it was or changed.
std::string replace(Random& random, const Table& table) {
  std::vector<const Column*> columns;
  for (const auto& column : table.columns)
    if (!column.generated) columns.push_back(&column);
  std::vector<std::string> values;
  for (const auto* column : columns) {
    const bool own = column->key || column->name == table.turn || column->name == table.area;
    const bool changed = !own && chance(random, 25);
    values.push_back(changed ? value(random, *column) : column->name);
  }
  const std::string only = table.children.empty() ? "" : "only ";
  const auto condition = few(only + table.name, where(random, table), 3);
  return fmt::format(
      "with d as (delete from {0}{1} where {2} returning *) insert into {1} ({3}) overriding system value select {4} "
      "from d",
      only, table.name, condition, names(columns), join(values));
}

std::string truncate(Random& random, const Table& table, const std::vector<Table>& tables) {
  const std::string end = chance(random, 30) ? " restart identity" : "";
  if (!table.leaves.empty() && chance(random, 60)) return "truncate " + any_of(random, table.leaves) + end;
  if (!table.children.empty() && chance(random, 50)) return "truncate only " + table.name + end;
  if (chance(random, 30)) return "truncate " + table.name + ", " + any_of(random, tables).name + end + " cascade";
  return "truncate " + table.name + end;
}

Step copy(Random& random, const Table& table) {
  std::vector<const Column*> columns;
  for (const auto& column : table.columns)
    if (!column.generated && (!column.identity || chance(random, 50))) columns.push_back(&column);
  std::string rows;
  for (int i = 0, count = pick(random, 1, 8); i < count; ++i) {
    std::vector<std::string> values;
    for (const auto* column : columns)
      values.push_back("(" +
                       (column->name == table.turn || column->name == table.area ? "null" : value(random, *column)) +
                       ")::text");
    rows += (i == 0 ? "select " : " union all select ") + join(values);
  }
  return {fmt::format("copy {} ({}) from stdin", table.name, names(columns)), rows};
}

// In the middle of the stream. FULL with a generated column would be no identity at all.
std::string change_identity(Random& random, const Table& table) {
  const bool may =
      table.identity == Identity::primary_key && table.leaves.empty() && table.children.empty() &&
      std::none_of(table.columns.begin(), table.columns.end(), [](const Column& c) { return c.generated; });
  if (!may) return update(random, table);
  return fmt::format("alter table {} replica identity {}", table.name, chance(random, 50) ? "full" : "default");
}

// A column comes, perhaps for the second time, and is used at once.
Transaction grow(Random& random, const Table& table) {
  const auto& later = any_of(random, table.later);
  Transaction steps{
      {fmt::format("alter table {} add column if not exists {} {}", table.name, later.name, later.definition)}};
  if (table.insert_only())
    steps.push_back({insert_rows(random, table, 1, false)});
  else if (chance(random, 70))
    steps.push_back(
        {fmt::format("update {} set {} = {} where {}", table.name, later.name, later.value, where(random, table))});
  return steps;
}

Transaction any_steps(Random& random, const Table& table, const std::vector<Table>& tables) {
  const int kind = pick(random, 1, 1000);
  const bool grows = !table.later.empty();
  if (kind <= 30 && grows) return grow(random, table);
  // What older rows hold in a new column is not known after a rewrite: the stream would rightly stop.
  if (kind <= 12 && !grows) return {{truncate(random, table, tables)}};
  if (kind <= 20 && !table.insert_only()) return {{change_identity(random, table)}};
  if (kind <= 80) return {copy(random, table)};
  if (kind <= 400 || table.insert_only()) return {{insert_rows(random, table, pick(random, 1, 5), chance(random, 75))}};
  if (kind <= 620) return {{update(random, table)}};
  if (kind <= 760) return {{update_key(random, table)}};
  if (kind <= 820) return swap(random, table);
  if (kind <= 900) return {{replace(random, table)}};
  return {{remove(random, table)}};
}

}  // namespace

std::string insert_rows(Random& random, const Table& table, int rows, bool conflicts) {
  const auto columns = insertable(random, table);
  std::string text;
  for (int i = 0; i < rows; ++i) text += (i == 0 ? "(" : ", (") + row(random, table, columns) + ")";
  return fmt::format("insert into {} ({}) overriding system value values {}{}", place(random, table), names(columns),
                     text, conflicts ? conflict_clause(random, table) : "");
}

Transaction any_transaction(Random& random, const std::vector<Table>& tables) {
  if (pick(random, 1, 300) == 1 && tables.front().later.empty())
    return {{"vacuum full " + any_of(random, tables).name}};
  Transaction steps{{"begin"}};
  bool open = false;
  const Table* table = &any_of(random, tables);
  for (int i = 0, count = pick(random, 1, 5); i < count; ++i) {
    if (chance(random, 40)) table = &any_of(random, tables);
    if (!open && chance(random, 25)) {
      steps.push_back({"savepoint s"});
      open = true;
    }
    const auto more = any_steps(random, *table, tables);
    steps.insert(steps.end(), more.begin(), more.end());
    if (open && chance(random, 40)) {
      steps.push_back({chance(random, 60) ? "rollback to s" : "release s"});
      open = steps.back().sql == "rollback to s";
    }
  }
  steps.push_back({chance(random, 88) ? "commit" : "rollback"});
  return steps;
}

}  // namespace pgbaton::schemas
