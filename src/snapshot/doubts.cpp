#include "doubts.hpp"

#include <fmt/format.h>
#include <pgbaton/catalog/choice.hpp>

#include <algorithm>
#include <utility>

#include "fingerprint.hpp"

namespace pgbaton::snapshot {
namespace {

using state::DoubtKind;

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

DoubtFinder::DoubtFinder(const Catalogs& source, const Catalogs& target, const std::set<QualifiedName>& published,
                         const std::vector<state::TableState>& states, const state::Replica& replica)
    : source_(source), target_(target), published_(published), makes_schema_(makes_schema(replica)) {
  for (const auto& choice : catalog::recorded_choices(replica.options))
    if (!choice.columns.empty()) with_column_list_.insert(parse_qualified_name(choice.name));
  for (const auto& table : source.tables) source_by_oid_.emplace(table.oid, &table);
  for (const auto& table : target.tables) {
    target_by_oid_.emplace(table.oid, &table);
    target_by_name_.emplace(table.name, &table);
  }
  for (const auto& state : states) {
    known_.emplace(state.name, state.source_oid);
    known_oids_.insert(state.source_oid);
    const auto table = source_by_oid_.find(state.source_oid);
    if (table != source_by_oid_.end() && state.phase != state::TablePhase::skipped && !state.detached &&
        !state.source_shape.empty() && on_target(state) != nullptr)
      looked_at_.insert(table->second->name);
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

std::string DoubtFinder::bounds(const Catalogs& side, const catalog::Table& table) {
  const auto where = &side == &source_ ? Side::source : Side::target;
  return pg::control(where, "reading the bounds of " + table.name.quoted(), [&]() -> std::string {
    pqxx::nontransaction tx(side.connection);
    const auto rows = tx.exec_params(
        "select pg_get_expr(relpartbound, oid) from pg_catalog.pg_class where oid = $1 and relispartition", table.oid);
    return rows.empty() ? "…" : rows[0][0].as<std::string>();
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
  const auto statements = catalog::rename_statements(source_.connection, target_.connection, target.name, table.name);
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

// Attached again to where it was: rows go to it, or do not.
void DoubtFinder::compare_bounds(const catalog::Table& table, const catalog::Table& target) {
  if (table.parent_oid == 0 || target.parent_oid == 0) return;
  const auto here = bounds(source_, table), there = bounds(target_, target);
  if (here == there) return;
  const auto parent = target_by_oid_.find(target.parent_oid);
  if (parent == target_by_oid_.end()) return;
  differs(table, fmt::format("is a partition {} on the source and {} on the target", here, there),
          fmt::format("on the target: ALTER TABLE {0} DETACH PARTITION {1}; ALTER TABLE {0} ATTACH PARTITION {1} {2}",
                      parent->second->name.quoted(), target.name.quoted(), here));
}

// A new file that neither TRUNCATE, whose news the stream has, nor a new column explains. CLUSTER and VACUUM FULL do,
// and cannot be told from SET UNLOGGED and SET LOGGED; where the server allows that, only a comparison tells.
bool DoubtFinder::may_have_been_unlogged(const catalog::Table& table, const catalog::Shape& recorded) const {
  if (table.kind != 'r' || recorded.filenode == 0 || recorded.filenode == table.filenode) return false;
  if (source_.named.contains(table.oid) || table.attribute_count > recorded.attributes) return false;
  const auto toast = source_.toast.find(table.oid);
  return toast == source_.toast.end() || recorded.toast != toast->second;
}

// A partition has exactly its parent's columns. Any default below all boundaries guards rows as if there was none.
std::string DoubtFinder::guard_of_new_parent(const std::vector<std::string>& parents, const catalog::Table& target) {
  if (!target.has_guard_column) return {};
  for (const auto& [name, table] : target_by_name_)
    if (std::ranges::find(parents, name.quoted()) != parents.end() && !table->has_guard_column)
      return fmt::format("ALTER TABLE {} ADD COLUMN {} pg_lsn NOT NULL DEFAULT '0/0'; ", name.quoted(),
                         quote_identifier(kGuardColumn));
  return {};
}

// Only when it changed since: the target may be partitioned in another way on purpose.
void DoubtFinder::compare_parent(const catalog::Table& table, const catalog::Table& target,
                                 const catalog::ShapeChange& change) {
  if (!change.moved) return;
  const auto here = parent_names(source_by_oid_, table), there = parent_names(target_by_oid_, target);
  if (here == there) return compare_bounds(table, target);
  const bool partition = table.parent_oid != 0 || target.parent_oid != 0;
  const auto alter = [&](const std::string& parent, bool attach) {
    if (!partition)
      return fmt::format("ALTER TABLE {} {}INHERIT {}", target.name.quoted(), attach ? "" : "NO ", parent);
    return fmt::format("ALTER TABLE {} {} PARTITION {}{}", parent, attach ? "ATTACH" : "DETACH", target.name.quoted(),
                       attach ? " " + bounds(source_, table) : "");
  };
  std::string statements = partition ? guard_of_new_parent(here, target) : "";
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

// Whoever took a partition out on both sides wants it left alone.
bool DoubtFinder::left_the_replica(const catalog::Table& table, const state::TableState& state,
                                   const std::optional<catalog::Shape>& recorded) const {
  if (!recorded || recorded->parents.value_or("").empty() || !table.parents.empty() || is_published(table))
    return false;
  const auto* target = on_target(state);
  return target != nullptr && target->parents.empty();
}

void DoubtFinder::look_at(const catalog::Table& table, const state::TableState& state) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  if (left_the_replica(table, state, recorded)) {
    disagreeing_.insert(table.oid);
    return add(
        table.name, DoubtKind::outside,
        "was detached from its partitioned table on both sides and is not part of this replica any more: what is "
        "written to it since stays on the source",
        "attached again on both sides it is; `pgbaton resync` copies it then");
  }
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
  else if (change.altered.empty() && recorded && may_have_been_unlogged(table, *recorded))
    add(table.name, DoubtKind::unproven,
        "was rewritten on the source, as CLUSTER and VACUUM FULL do and SET UNLOGGED, too: what was written to it "
        "while "
        "it was unlogged would be missing",
        std::string(kProve));
  doubt_columns(table, change);
  const auto* target = on_target(state);
  if (target == nullptr) return;
  compare_name(table, state, *target);
  compare_parent(table, *target, change);
  compare_columns(table, state, *target);
  compare_types(table, state, *target);
}

void DoubtFinder::look_at_skipped(const catalog::Table& table, const state::TableState& state) {
  // The rows of a partitioned table are its partitions', but who asks for it by name must find them.
  if (const auto* target = on_target(state); table.kind == 'p' && target != nullptr && target->kind == 'p')
    compare_name(table, state, *target);
  if (table.kind != 'r' || table.persistence != 'p' || !state.note.starts_with("unlogged") || is_published(table))
    return;
  differs(table, "was unlogged when the replica was begun and is not any more: its rows are not on the target",
          "`pgbaton clone --restart` begins anew");
}

void DoubtFinder::look_at_survivor(const state::TableState& state, const catalog::Relation& now) {
  add(state.name, DoubtKind::differs,
      fmt::format(
          "was left out as dropped while it was to be copied, and is there on the source{}: its rows are not on "
          "the target",
          now.name == state.name ? "" : " as " + now.name.quoted()),
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
               table.persistence == 'u' ? "unlogged, it is in no stream: ALTER TABLE " + table.name.quoted() +
                                              " SET LOGGED; then `pgbaton resync --add` takes it in"
                                        : "`pgbaton resync --add` takes it in");
  if (is_published(table)) {
    const bool made = target_by_name_.contains(table.name), has_rows = table.bytes > 0;
    if (made && !has_rows) return;  // its first row is met by the stream
    return add(table.name, has_rows ? DoubtKind::differs : DoubtKind::outside,
               fmt::format("is a new partition of {} and {} on the target yet", root->second->name.quoted(),
                           made ? "its rows are not" : "not"),
               "`pgbaton follow --drift add-columns` takes it in when its next row comes; before it has any, CREATE "
               "TABLE … PARTITION OF on the target does");
  }
  add(table.name, DoubtKind::differs,
      fmt::format("is a new partition of {} and not part of this replica: it is in no publication, and its rows are "
                  "not on the target",
                  root->second->name.quoted()),
      "`pgbaton clone --restart` begins anew");
}

}  // namespace pgbaton::snapshot
