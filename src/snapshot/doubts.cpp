#include "doubts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pgbaton::snapshot {
namespace {

using state::DoubtKind;

constexpr std::string_view kProve =
    "`pgbaton verify` compares it, with --repair it mends it; once the replica is ready, `pgbaton resync` copies it "
    "again";

std::string names(const std::vector<std::string>& columns) {
  std::vector<std::string> quoted;
  for (const auto& column : columns) quoted.push_back(quote_identifier(column));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

std::string rename_statements(const QualifiedName& from, const QualifiedName& to) {
  std::string sql;
  if (from.schema != to.schema)
    sql += fmt::format("ALTER TABLE {} SET SCHEMA {}; ", from.quoted(), quote_identifier(to.schema));
  if (from.name != to.name)
    sql += fmt::format("ALTER TABLE {} RENAME TO {}; ", QualifiedName{to.schema, from.name}.quoted(),
                       quote_identifier(to.name));
  return "on the target: " + sql.substr(0, sql.size() - 2);
}

}  // namespace

DoubtFinder::DoubtFinder(pg::Control& source, const std::vector<catalog::Table>& source_tables,
                         const std::vector<catalog::Table>& target_tables, const std::set<QualifiedName>& published,
                         const std::vector<state::TableState>& states)
    : source_(source), published_(published) {
  for (const auto& table : source_tables) source_by_oid_.emplace(table.oid, &table);
  for (const auto& table : target_tables) {
    target_by_oid_.emplace(table.oid, &table);
    target_by_name_.emplace(table.name, &table);
  }
  for (const auto& state : states) {
    known_.emplace(state.name, state.source_oid);
    known_oids_.insert(state.source_oid);
  }
}

const catalog::Table* DoubtFinder::on_target(const state::TableState& state) const {
  if (const auto found = target_by_oid_.find(state.target_oid); found != target_by_oid_.end()) return found->second;
  const auto found = target_by_name_.find(state.name);
  return found == target_by_name_.end() ? nullptr : found->second;
}

void DoubtFinder::add(const QualifiedName& table, DoubtKind kind, std::string reason, std::string remedy) {
  found_.push_back({0, table, kind, std::move(reason), std::move(remedy), {}});
}

// A publication of an administrator may name an ancestor, and send by it.
bool DoubtFinder::is_published(const catalog::Table& table) const {
  if (published_.contains(table.name)) return true;
  const auto parent = source_by_oid_.find(table.parent_oid);
  return parent != source_by_oid_.end() && is_published(*parent->second);
}

std::string DoubtFinder::bounds(const catalog::Table& table) {
  return pg::control(Side::source, "reading the bounds of " + table.name.quoted(), [&]() -> std::string {
    pqxx::nontransaction tx(source_);
    const auto rows = tx.exec_params(
        "select pg_get_expr(relpartbound, oid) from pg_catalog.pg_class where oid = $1 and relispartition", table.oid);
    return rows.empty() ? "…" : rows[0][0].as<std::string>();
  });
}

std::string DoubtFinder::generation_clause(const catalog::Table& table, const catalog::Column& column) {
  return pg::control(Side::source, "reading what a column is generated from", [&]() -> std::string {
    pqxx::nontransaction tx(source_);
    const auto rows = tx.exec_params(
        "select pg_get_expr(adbin, adrelid) from pg_catalog.pg_attrdef where adrelid = $1 and adnum = $2", table.oid,
        column.number);
    return fmt::format("GENERATED ALWAYS AS ({}) {}", rows.empty() ? "…" : rows[0][0].as<std::string>(),
                       column.generated == 'v' ? "VIRTUAL" : "STORED");
  });
}

void DoubtFinder::compare_name(const catalog::Table& table, const state::TableState& state,
                               const catalog::Table& target) {
  if (target.name == table.name || state.name == table.name) return;
  add(state.name, DoubtKind::differs,
      fmt::format("was renamed on the source to {}; the target calls it {}", table.name.quoted(), target.name.quoted()),
      rename_statements(target.name, table.name));
}

void DoubtFinder::compare_parent(const catalog::Table& table, const catalog::Table& target,
                                 const catalog::ShapeChange& change) {
  if (!change.moved) return;
  const auto parent = source_by_oid_.find(table.parent_oid);
  const auto target_parent = target_by_oid_.find(target.parent_oid);
  const auto name = parent == source_by_oid_.end() ? QualifiedName{} : parent->second->name;
  const auto target_name = target_parent == target_by_oid_.end() ? QualifiedName{} : target_parent->second->name;
  if (name == target_name) return;
  if (!name.name.empty() && !target_by_name_.contains(name)) return;  // the target is not partitioned in that way
  if (!name.name.empty())
    return add(table.name, DoubtKind::differs,
               fmt::format("is a partition of {} on the source, and not on the target", name.quoted()),
               fmt::format("on the target: ALTER TABLE {} ATTACH PARTITION {} {}", name.quoted(), target.name.quoted(),
                           bounds(table)));
  add(table.name, DoubtKind::differs,
      fmt::format("was detached from its table on the source; on the target it is a partition of {}",
                  target_name.quoted()),
      fmt::format("on the target: ALTER TABLE {} DETACH PARTITION {}", target_name.quoted(), target.name.quoted()));
}

// A generated column is in no stream, so no row ever says that it came.
void DoubtFinder::compare_generated(const catalog::Table& table, const state::TableState& state,
                                    const catalog::Table& target) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  for (const auto& column : table.columns) {
    if (column.generated == ' ' || target.find_column(column.name) != nullptr) continue;
    if (recorded && recorded->columns.contains(column.number)) continue;  // it was missing from the beginning
    add(table.name, DoubtKind::differs,
        fmt::format("lacks the generated column {} on the target", quote_identifier(column.name)),
        fmt::format("on the target: ALTER TABLE {} ADD COLUMN {} {} {}", target.name.quoted(),
                    quote_identifier(column.name), column.full_type, generation_clause(table, column)));
  }
}

void DoubtFinder::doubt_columns(const catalog::Table& table, const catalog::ShapeChange& change) {
  const auto doubt = [&](const std::vector<std::string>& columns, std::string_view what) {
    if (!columns.empty())
      add(table.name, DoubtKind::unproven,
          fmt::format("column{} {} {}: rows from before may hold other values", columns.size() > 1 ? "s" : "",
                      names(columns), what),
          std::string(kProve));
  };
  doubt(change.other, "is another one on the source than before (made anew, or names were exchanged)");
  doubt(change.unclear, "came to the source after another column had come and gone");
  doubt(change.altered, "was altered on the source while the table was rewritten (ALTER COLUMN TYPE)");
}

void DoubtFinder::look_at(const catalog::Table& table, const state::TableState& state) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  const auto change = recorded ? catalog::compare(*recorded, table) : catalog::ShapeChange{};
  if (table.kind == 'r' && !is_published(table))
    add(table.name, DoubtKind::differs, "is in no publication of this replica any more: its changes do not come",
        table.parent_oid == 0 ? "attach it to its partitioned table again and run `pgbaton resync`, or begin anew with "
                                "`pgbaton clone --restart`"
                              : "begin anew with `pgbaton clone --restart`");
  if (change.moved && recorded && recorded->parents && !recorded->parents->empty())
    add(table.name, DoubtKind::unproven,
        "was detached or attached as a partition on the source: what was written to it meanwhile may be missing",
        std::string(kProve));
  doubt_columns(table, change);
  const auto* target = on_target(state);
  if (target == nullptr) return;
  compare_name(table, state, *target);
  compare_parent(table, *target, change);
  compare_generated(table, state, *target);
}

// A table of its own stays as what it was; a partition's rows are still seen through its root.
void DoubtFinder::look_at_dropped(const state::TableState& state) {
  const auto* target = on_target(state);
  if (target == nullptr || target->parent_oid == 0) return;
  const auto parent = target_by_oid_.find(target->parent_oid);
  add(state.name, DoubtKind::differs,
      fmt::format("was dropped on the source; on the target it is a partition of {} with its rows",
                  parent == target_by_oid_.end() ? "another table" : parent->second->name.quoted()),
      fmt::format("on the target: DROP TABLE {}", target->name.quoted()));
}

void DoubtFinder::look_at_unknown(const catalog::Table& table) {
  const auto former = known_.find(table.name);
  if (former != known_.end() && !source_by_oid_.contains(former->second))
    return add(table.name, DoubtKind::differs,
               "was dropped and made again on the source; the target has the former one",
               "`pgbaton clone --restart` begins anew");
  const auto root = source_by_oid_.find(table.root_oid);
  if (root == source_by_oid_.end() || !known_oids_.contains(table.root_oid))
    return add(table.name, DoubtKind::outside,
               "was created on the source after the copy was planned and is not part of this replica: its rows are not "
               "on the target",
               "`pgbaton resync --add` takes it in");
  if (is_published(table)) {
    if (target_by_name_.contains(table.name)) return;  // its first row is met by the stream
    return add(table.name, DoubtKind::outside,
               fmt::format("is a new partition of {} and not on the target yet", root->second->name.quoted()),
               "`pgbaton follow --drift add-columns` takes it in when its first row comes; before that, CREATE TABLE … "
               "PARTITION OF on the target does");
  }
  add(table.name, DoubtKind::differs,
      fmt::format("is a new partition of {} and not part of this replica: it is in no publication, and its rows are "
                  "not on the target",
                  root->second->name.quoted()),
      "`pgbaton clone --restart` begins anew");
}

}  // namespace pgbaton::snapshot
