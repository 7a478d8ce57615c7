#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/shape.hpp>
#include <pgbaton/snapshot/recheck.hpp>
#include <pgbaton/source/publication.hpp>

#include <algorithm>

#include "doubts.hpp"
#include "fingerprint.hpp"
#include "renamed.hpp"

namespace pgbaton::snapshot {

namespace {

// A pattern that matched when the replica was begun may match nothing now; then all tables are looked at.
std::set<catalog::Oid> chosen_tables(const std::vector<catalog::Table>& tables, const state::Replica& replica) {
  CloneOptions options;
  apply_recorded_choice(replica, options);
  std::set<catalog::Oid> chosen;
  try {
    for (const auto& table : catalog::apply_filter(tables, options.filter)) chosen.insert(table.oid);
  } catch (const Error& error) {
    log::debug("looking for new tables: {}", error.message());
    for (const auto& table : tables) chosen.insert(table.oid);
  }
  return chosen;
}

std::set<QualifiedName> published_tables(pg::Control& source, const state::Replica& replica) {
  std::set<QualifiedName> published;
  for (const auto& publication : replica.publications())
    for (const auto& name : source::published_tables(source, publication)) published.insert(name);
  return published;
}

Catalogs load_catalogs(pg::Control& connection, Side side) {
  Catalogs all{connection, catalog::load_tables(connection, {}, side), catalog::load_types(connection, side), {}, {}};
  pg::control(side, "reading what is published by name", [&] {
    pqxx::nontransaction tx(connection);
    for (const auto& row : tx.exec("select distinct prrelid::bigint from pg_catalog.pg_publication_rel"))
      all.named.insert(row[0].as<catalog::Oid>());
    for (const auto& row : tx.exec("select oid::bigint, reltoastrelid::bigint from pg_catalog.pg_class where relkind = "
                                   "'r' and reltoastrelid <> 0 and oid >= 16384"))
      all.toast.emplace(row[0].as<catalog::Oid>(), row[1].as<catalog::Oid>());
  });
  return all;
}

// What was taken for dropped when it had another name.
void look_at_survivors(pg::Control& source, const std::vector<state::TableState>& tables, DoubtFinder& finder) {
  std::vector<catalog::Oid> oids;
  for (const auto& state : tables)
    if (is_noted_as_dropped(state)) oids.push_back(state.source_oid);
  const auto relations = catalog::load_relations(source, oids);
  for (const auto& state : tables)
    if (const auto found = relations.find(state.source_oid); found != relations.end() && is_noted_as_dropped(state))
      finder.look_at_survivor(state, found->second);
}

bool publishes_changes(const state::TableState& state) {
  return !state.inserts_only && state.phase != state::TablePhase::skipped;
}

}  // namespace

bool ChangeReport::warn_once(const std::string& about, const std::string& message) {
  if (!told_.insert(about).second) return false;
  log::warning("{}", message);
  return true;
}

// What there is to compare is all in here, so the target is left alone while it stays the same.
std::string ChangeReport::picture(const Catalogs& source, const std::set<QualifiedName>& published) {
  std::string now;
  for (const auto& [name, type] : source.types.by_name) now += catalog::to_text(type) + "\n";
  for (const auto& table : source.tables)
    now += fmt::format("{}{}{}{}{}\n", table.oid, table.name.quoted(), published.contains(table.name),
                       static_cast<int>(table.identity), catalog::shape_json(table));
  return now;
}

void ChangeReport::warn_of_identity(const catalog::Table& table, const state::TableState& state) {
  if (!publishes_changes(state) || table.identity != catalog::Identity::unusable) return;
  const auto quoted = table.name.quoted();
  warn_once(quoted + " identity",
            fmt::format("{} has no usable identity any more ({}): its updates and deletes are published, so they fail "
                        "on the source or cannot be carried; ALTER TABLE {} REPLICA IDENTITY FULL, or give it a "
                        "primary key",
                        quoted, table.identity_reason, quoted));
}

// An event and a note for `status`, once.
void ChangeReport::report_dropped(const Where& where, const std::string& column, const catalog::Table& table,
                                  state::TableState& seen) {
  const auto quoted = quote_identifier(column);
  const auto note = fmt::format("column {} was dropped on the source and stays on the target", quoted);
  const auto statement = fmt::format("ALTER TABLE {} DROP COLUMN {}", table.name.quoted(), quoted);
  if (!warn_once(fmt::format("{}.{} dropped", table.name.quoted(), quoted),
                 fmt::format("{}: {}; {}", table.name.quoted(), note, statement)))
    return;
  if (seen.note.find(note) != std::string::npos) return;
  seen.note += (seen.note.empty() ? "" : "; ") + note;
  state::Store(where.target())
      .add_event(where.replica.name, "column_dropped",
                 state::to_json({{"table", table.name.quoted()}, {"column", column}, {"statement", statement}}));
}

// Only what the target has in full may count as known: a column that is missing there is still to come.
void ChangeReport::keep_shape(const Where& where, const catalog::Table& table, const catalog::Table& on_target,
                              state::TableState& state) {
  const auto recorded = catalog::parse_shape(state.source_shape);
  if (!recorded) return;
  auto seen = state;
  const auto stays = [&](const std::string& column) { return on_target.find_column(column) != nullptr; };
  std::map<int, std::string> kept;
  for (const auto& [number, column] : catalog::compare(*recorded, table).gone) {
    if (!stays(column) || table.find_column(column) != nullptr) continue;
    kept.emplace(number, column);
    report_dropped(where, column, table, seen);
  }
  const bool has_all = std::ranges::all_of(table.columns, [&](const catalog::Column& column) {
    return column.name == kGuardColumn || stays(column.name) ||
           (column.generated != ' ' && recorded->columns.contains(column.number));
  });
  if (has_all) {
    auto shape = catalog::succeed(*recorded, table, kept);
    const auto found = where.toast.find(table.oid);
    shape.toast = found == where.toast.end() ? 0 : found->second;
    seen.source_shape = catalog::to_json(shape);
  }
  if (seen.source_shape == state.source_shape && seen.note == state.note) return;
  state::Store(where.target()).store_observed(where.replica, seen);
  state = std::move(seen);
}

std::vector<state::Doubt> ChangeReport::look(pg::Control& source, const std::function<pg::Control&()>& target,
                                             const state::Replica& replica, std::vector<state::TableState>& tables) {
  const Catalogs here = load_catalogs(source, Side::source);
  const auto& source_tables = here.tables;
  const auto published = published_tables(source, replica);
  auto now = picture(here, published);
  if (now == seen_ && !changing_) return {};
  const Catalogs there = load_catalogs(target(), Side::target);
  const auto chosen = chosen_tables(source_tables, replica);
  std::map<catalog::Oid, state::TableState*> known;
  for (auto& state : tables) known[state.source_oid] = &state;

  DoubtFinder finder(here, there, published, tables, replica);
  const auto for_known = [&](const auto& work) {
    for (const auto& table : source_tables)
      if (const auto found = known.find(table.oid); found != known.end())
        if (found->second->phase != state::TablePhase::skipped && !found->second->detached) work(table, *found->second);
  };
  for_known([&](const catalog::Table& table, const state::TableState& state) {
    warn_of_identity(table, state);
    finder.look_at(table, state);
  });
  for (const auto& table : source_tables)
    if (const auto found = known.find(table.oid);
        found != known.end() && found->second->phase == state::TablePhase::skipped)
      finder.look_at_skipped(table, *found->second);
  look_at_survivors(source, tables, finder);
  for (const auto& table : source_tables)
    if (!known.contains(table.oid) && chosen.contains(table.oid)) finder.look_at_unknown(table);
  std::set<catalog::Oid> present;
  for (const auto& table : source_tables) present.insert(table.oid);
  for (const auto& state : tables)
    if (state.phase == state::TablePhase::done && !present.contains(state.source_oid)) finder.look_at_dropped(state);
  auto doubts = finder.take();
  changing_ = std::ranges::any_of(doubts, [](const auto& d) { return d.kind == state::DoubtKind::differs; });
  for (const auto& doubt : doubts)
    warn_once(doubt.table.quoted() + doubt.reason,
              fmt::format("{} {}; {}", doubt.table.quoted(), doubt.reason, doubt.remedy));
  state::store_doubts(target(), replica.name, replica.generation, doubts);
  // Only now: a shape that is known is not in doubt again.
  for_known([&](const catalog::Table& table, state::TableState& state) {
    const auto* on_target = finder.on_target(state);
    if (on_target != nullptr && finder.agrees(table.oid))
      keep_shape({target, replica, here.toast}, table, *on_target, state);
  });
  state::Store(target()).rename_tables(replica, finder.renames());
  for (const auto& [from, to] : finder.renames())
    for (auto& state : tables)
      if (state.name == from) state.name = to;
  seen_ = std::move(now);  // a look that failed before it had stored what it found is made again
  return doubts;
}

}  // namespace pgbaton::snapshot
