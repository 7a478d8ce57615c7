#include "doubts.hpp"

#include <fmt/format.h>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/catalog/origin.hpp>

#include <algorithm>
#include <utility>

#include "fingerprint.hpp"

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

bool makes_schema(const state::Replica& replica) {
  CloneOptions options;
  apply_recorded_choice(replica, options);
  return options.schema == SchemaMode::full;
}

}  // namespace

DoubtFinder::DoubtFinder(pg::Control& source, const std::vector<catalog::Table>& source_tables,
                         const std::vector<catalog::Table>& target_tables, const std::set<QualifiedName>& published,
                         const std::vector<state::TableState>& states, const state::Replica& replica)
    : source_(source), published_(published), makes_schema_(makes_schema(replica)) {
  for (const auto& choice : catalog::recorded_choices(replica.options))
    if (!choice.columns.empty()) with_column_list_.insert(parse_qualified_name(choice.name));
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

void DoubtFinder::differs(const catalog::Table& table, std::string reason, std::string remedy) {
  disagreeing_.insert(table.oid);
  add(table.name, DoubtKind::differs, std::move(reason), std::move(remedy));
}

void DoubtFinder::compare_name(const catalog::Table& table, const state::TableState& state,
                               const catalog::Table& target) {
  if (target.name == table.name) {
    if (state.name != table.name) renames_.push_back({state.name, table.name});
    return;
  }
  disagreeing_.insert(table.oid);
  const auto statements = catalog::rename_statements(target.name, table.name);
  add(state.name, DoubtKind::differs,
      fmt::format("is called {} on the source and {} on the target", table.name.quoted(), target.name.quoted()),
      "on the target: " + statements.substr(0, statements.size() - 2));
}

// What a table inherits from, partitioned or not, by name.
std::vector<std::string> DoubtFinder::parent_names(const std::map<catalog::Oid, const catalog::Table*>& tables,
                                                   const catalog::Table& table) const {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < table.parents.size();) {
    const auto end = std::min(table.parents.find(',', at), table.parents.size());
    const auto parent = tables.find(static_cast<catalog::Oid>(std::stoul(table.parents.substr(at, end - at))));
    found.push_back(parent == tables.end() ? "?" : parent->second->name.quoted());
    at = end + 1;
  }
  std::ranges::sort(found);
  return found;
}

// Only when it changed since: the target may be partitioned in another way on purpose.
void DoubtFinder::compare_parent(const catalog::Table& table, const catalog::Table& target,
                                 const catalog::ShapeChange& change) {
  if (!change.moved) return;
  const auto here = parent_names(source_by_oid_, table), there = parent_names(target_by_oid_, target);
  if (here == there) return;
  const bool partition = table.parent_oid != 0 || target.parent_oid != 0;
  const auto alter = [&](const std::string& parent, bool attach) {
    if (!partition)
      return fmt::format("ALTER TABLE {} {}INHERIT {}", target.name.quoted(), attach ? "" : "NO ", parent);
    return fmt::format("ALTER TABLE {} {} PARTITION {}{}", parent, attach ? "ATTACH" : "DETACH", target.name.quoted(),
                       attach ? " " + bounds(table) : "");
  };
  std::string statements;
  for (const auto& parent : there)
    if (std::ranges::find(here, parent) == here.end()) statements += alter(parent, false) + "; ";
  for (const auto& parent : here)
    if (std::ranges::find(there, parent) == there.end()) statements += alter(parent, true) + "; ";
  const auto words = [&](const std::vector<std::string>& parents) {
    return parents.empty() ? std::string(partition ? "no partition" : "nobody's child")
                           : fmt::format("{} of {}", partition ? "a partition" : "a child", fmt::join(parents, ", "));
  };
  differs(table, fmt::format("is {} on the source and {} on the target", words(here), words(there)),
          "on the target: " + statements.substr(0, statements.size() - std::min<std::size_t>(2, statements.size())));
}

// Of a column that no row has told the stream of yet, or never will: a generated one is in no stream.
void DoubtFinder::compare_column(const catalog::Table& table, const catalog::Column& column,
                                 const catalog::Shape& recorded, const state::TableState& state,
                                 const catalog::Table& target) {
  const auto quoted = quote_identifier(column.name);
  const auto known = recorded.columns.find(column.number);
  const auto alter = [&](const std::string& what) {
    return "on the target: ALTER TABLE " + target.name.quoted() + what;
  };
  if (const auto* there = target.find_column(column.name); there != nullptr) {
    const auto version = recorded.versions.find(column.number);
    const bool altered = version != recorded.versions.end() && version->second != column.version;
    if (makes_schema_ && altered && there->full_type != column.full_type && column.generated == ' ')
      differs(table,
              fmt::format("has column {} as {} on the source and {} on the target", quoted, column.full_type,
                          there->full_type),
              alter(fmt::format(" ALTER COLUMN {0} TYPE {1} USING {0}::{1}", quoted, column.full_type)));
    return;
  }
  if (known != recorded.columns.end()) {
    if (known->second != column.name && target.find_column(known->second) != nullptr)
      differs(table,
              fmt::format("has column {} on the source, which the target calls {}", quoted,
                          quote_identifier(known->second)),
              alter(fmt::format(" RENAME COLUMN {} TO {}", quote_identifier(known->second), quoted)));
    return;  // else it was missing from the beginning
  }
  if (column.generated != ' ')
    return differs(
        table, fmt::format("lacks the generated column {} on the target", quoted),
        alter(fmt::format(" ADD COLUMN {} {} {}", quoted, column.full_type, generation_clause(table, column))));
  if (with_column_list_.contains(state.name)) return;
  const auto origins = catalog::load_origins(source_, table.oid, state.source_shape);
  const auto* origin = origins ? origins->find(column.name) : nullptr;
  differs(
      table, fmt::format("lacks column {} on the target", quoted),
      "on the target: " + (origin == nullptr ? std::string("add it") : catalog::add_column(*origin, false).statement) +
          " (with --drift add-columns its first row does that)");
}

void DoubtFinder::compare_columns(const catalog::Table& table, const state::TableState& state,
                                  const catalog::Table& target) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  if (!recorded) return;
  for (const auto& column : table.columns)
    if (column.name != kGuardColumn) compare_column(table, column, *recorded, state, target);
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
  doubt(change.altered, "was altered on the source, and the table was rewritten (ALTER COLUMN TYPE does both)");
}

void DoubtFinder::look_at(const catalog::Table& table, const state::TableState& state) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  const auto change = recorded ? catalog::compare(*recorded, table) : catalog::ShapeChange{};
  const auto not_sent = [&](const std::string& why, const std::string& remedy) {
    differs(table, "is " + why + ": its changes do not come", remedy);
    add(table.name, DoubtKind::unproven, "was " + why + " for a while: what was written to it then may be missing",
        std::string(kProve));
  };
  if (table.kind == 'r' && table.persistence == 'u')
    not_sent("unlogged on the source", "on the source: ALTER TABLE " + table.name.quoted() + " SET LOGGED");
  else if (table.kind == 'r' && !is_published(table))
    not_sent("in no publication of this replica",
             table.parent_oid == 0 ? "attach it to its partitioned table again and run `pgbaton resync`, or begin anew "
                                     "with `pgbaton clone --restart`"
                                   : "begin anew with `pgbaton clone --restart`");
  else if (change.moved && recorded && recorded->parents && !recorded->parents->empty() && table.parent_oid != 0)
    add(table.name, DoubtKind::unproven,
        "was detached or attached as a partition on the source: what was written to it meanwhile may be missing",
        std::string(kProve));
  doubt_columns(table, change);
  const auto* target = on_target(state);
  if (target == nullptr) return;
  compare_name(table, state, *target);
  compare_parent(table, *target, change);
  compare_columns(table, state, *target);
}

void DoubtFinder::look_at_skipped(const catalog::Table& table, const state::TableState& state) {
  if (table.kind != 'r' || table.persistence != 'p' || !state.note.starts_with("unlogged") || is_published(table))
    return;
  differs(table, "was unlogged when the replica was begun and is not any more: its rows are not on the target",
          "`pgbaton clone --restart` begins anew");
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
