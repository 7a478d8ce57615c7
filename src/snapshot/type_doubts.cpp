// Types of columns that DDL has altered on one side: no row tells of it, and rows from before read as something else.
#include <fmt/format.h>

#include <algorithm>

#include "doubts.hpp"

namespace pgbaton::snapshot {
namespace {

using state::DoubtKind;

std::string without_end(const std::string& statements) {
  return statements.substr(0, statements.size() - 2);
}

std::string rename_statements(const QualifiedName& from, const QualifiedName& to) {
  std::string sql;
  if (from.schema != to.schema)
    sql += fmt::format("ALTER TYPE {} SET SCHEMA {}; ", from.quoted(), quote_identifier(to.schema));
  if (from.name != to.name)
    sql += fmt::format("ALTER TYPE {} RENAME TO {}; ", QualifiedName{to.schema, from.name}.quoted(),
                       quote_identifier(to.name));
  return sql;
}

const std::set<QualifiedName>& inside(const catalog::Types& types, catalog::Oid column_type) {
  static const std::set<QualifiedName> kNone;
  const auto found = types.inside.find(column_type);
  return found == types.inside.end() ? kNone : found->second;
}

}  // namespace

void DoubtFinder::compare_type(const catalog::Table& table, const catalog::Type& here, const catalog::Type& there) {
  const auto difference = catalog::compare(
      here, there, source_.connection.server_version() / 10'000 == target_.connection.server_version() / 10'000);
  if (!difference) return;
  add(table.name, DoubtKind::differs, fmt::format("uses the type {}: {}", here.name.quoted(), difference->reason),
      difference->statements.empty() ? "no statement mends it: make the type anew on the target as the source has it, "
                                       "and give it to its columns"
                                     : "on the target: " + without_end(difference->statements));
  if (difference->rows_differ)
    add(table.name, DoubtKind::unproven,
        fmt::format("uses the type {}, which was altered on the source: rows from before may read differently",
                    here.name.quoted()),
        std::string(kProve));
}

// The target's type in its place, if the source has none of that name.
void DoubtFinder::find_renamed_type(const catalog::Table& table, const catalog::Type& type,
                                    const catalog::Column& there) {
  std::vector<QualifiedName> former;
  for (const auto& name : inside(target_.types, there.type_oid))
    if (!source_.types.by_name.contains(name) && target_.types.by_name.at(name).kind == type.kind)
      former.push_back(name);
  if (former.size() != 1) return;
  add(table.name, DoubtKind::differs,
      fmt::format("uses the type {}, which the target calls {}", type.name.quoted(), former.front().quoted()),
      "on the target: " + without_end(rename_statements(former.front(), type.name)));
}

// Where the target's schema was made by others, its types may be others, too.
void DoubtFinder::compare_types(const catalog::Table& table, const state::TableState& state,
                                const catalog::Table& target) {
  if (!makes_schema_) return;
  const auto recorded = catalog::parse_shape(state.source_shape);
  std::set<QualifiedName> seen;
  for (const auto& column : table.columns) {
    const auto* there = target.find_column(column.name);
    if (there == nullptr) continue;
    for (const auto& name : inside(source_.types, column.type_oid)) {
      if (!seen.insert(name).second) continue;
      const auto& type = source_.types.by_name.at(name);
      if (const auto found = target_.types.by_name.find(name); found != target_.types.by_name.end())
        compare_type(table, type, found->second);
      else if (!recorded || !recorded->was_altered(column))
        find_renamed_type(table, type, *there);
    }
  }
}

}  // namespace pgbaton::snapshot
