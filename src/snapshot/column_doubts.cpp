// Columns of which no row has told the stream yet, or never will: a generated one is in no stream.
#include <fmt/format.h>

#include <algorithm>

#include "doubts.hpp"

namespace pgbaton::snapshot {

std::string DoubtFinder::generation_clause(const catalog::Table& table, const catalog::Column& column) {
  return pg::control(Side::source, "reading what a column is generated from", [&]() -> std::string {
    pqxx::nontransaction tx(source_.connection);
    const auto rows = tx.exec_params(
        "select pg_get_expr(adbin, adrelid) from pg_catalog.pg_attrdef where adrelid = $1 and adnum = $2", table.oid,
        column.number);
    return fmt::format("GENERATED ALWAYS AS ({}) {}", rows.empty() ? "…" : rows[0][0].as<std::string>(),
                       column.generated == 'v' ? "VIRTUAL" : "STORED");
  });
}

std::string DoubtFinder::collation(const catalog::Types& types, const catalog::Table& table,
                                   const std::string& column) const {
  const auto columns = types.collations.find(table.oid);
  if (columns == types.collations.end()) return {};
  const auto found = columns->second.find(column);
  return found == columns->second.end() ? std::string() : found->second;
}

void DoubtFinder::column_differs(
    const Pair& pair, const catalog::Column& column, const std::string& reason,
    const std::function<std::string(const catalog::Origins& origins, const QualifiedName&)>& remedy) {
  disagreeing_.insert(pair.table.oid);
  const auto origins = catalog::load_origins(source_.connection, pair.table.oid, pair.state.source_shape);
  const auto* origin = origins ? origins->find(column.name) : nullptr;
  if (origin == nullptr) return;  // gone this very moment
  auto place = pair.target.name;
  if (origin->defined_at != pair.table.name && !pair.target.parents.empty()) {
    if (looked_at_.contains(origin->defined_at)) return;
    if (target_by_name_.contains(origin->defined_at)) place = origin->defined_at;
  }
  const auto statement = remedy(*origins, place);
  if (!statements_.insert(statement).second) return;
  differs(pair.table, reason, "on the target: " + statement);
}

void DoubtFinder::compare_column_type(const Pair& pair, const catalog::Column& column, const catalog::Column& there) {
  const auto& recorded = pair.recorded;
  const bool is_another = !recorded.columns.contains(column.number) && recorded.number_of(column.name) != 0;
  if (!makes_schema_ || column.generated != ' ' || !(recorded.was_altered(column) || is_another)) return;
  const auto here_by = collation(source_.types, pair.table, column.name),
             there_by = collation(target_.types, pair.target, column.name);
  if (there.full_type == column.full_type && here_by == there_by) return;
  const auto text = [](const std::string& type, const std::string& by) {
    return by.empty() ? type : type + " COLLATE " + by;
  };
  column_differs(pair, column,
                 fmt::format("has column {} as {} on the source and {} on the target", quote_identifier(column.name),
                             text(column.full_type, here_by), text(there.full_type, there_by)),
                 [&](const catalog::Origins& origins, const QualifiedName& place) {
                   const auto how = catalog::retype(origins, *origins.find(column.name), pair.target, place).statements;
                   return how.substr(0, how.size() - 2);
                 });
}

void DoubtFinder::lacks_column(const Pair& pair, const catalog::Column& column) {
  const auto quoted = quote_identifier(column.name);
  if (column.generated != ' ')
    return column_differs(pair, column, fmt::format("lacks the generated column {} on the target", quoted),
                          [&](const catalog::Origins&, const QualifiedName& place) {
                            return fmt::format("ALTER TABLE {} ADD COLUMN {} {} {}", place.quoted(), quoted,
                                               column.full_type, generation_clause(pair.table, column));
                          });
  if (with_column_list_.contains(pair.state.name)) return;
  column_differs(pair, column, fmt::format("lacks column {} on the target", quoted),
                 [&](const catalog::Origins& origins, const QualifiedName& place) {
                   auto origin = *origins.find(column.name);
                   origin.defined_at = place;
                   return catalog::add_column(origin, false).statement +
                          " (with --drift add-columns its first row does that)";
                 });
}

void DoubtFinder::compare_column(const Pair& pair, const catalog::Column& column) {
  if (const auto* there = pair.target.find_column(column.name); there != nullptr)
    return compare_column_type(pair, column, *there);
  const auto known = pair.recorded.columns.find(column.number);
  if (known == pair.recorded.columns.end()) return lacks_column(pair, column);
  if (known->second == column.name || pair.target.find_column(known->second) == nullptr)
    return;  // it was missing from the beginning
  const auto quoted = quote_identifier(column.name), former = quote_identifier(known->second);
  column_differs(pair, column, fmt::format("has column {} on the source, which the target calls {}", quoted, former),
                 [&](const catalog::Origins&, const QualifiedName& place) {
                   return fmt::format("ALTER TABLE {} RENAME COLUMN {} TO {}", place.quoted(), former, quoted);
                 });
}

void DoubtFinder::compare_columns(const catalog::Table& table, const state::TableState& state,
                                  const catalog::Table& target) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  if (!recorded) return;
  for (const auto& column : table.columns)
    if (column.name != kGuardColumn) compare_column({table, target, state, *recorded}, column);
}

}  // namespace pgbaton::snapshot
