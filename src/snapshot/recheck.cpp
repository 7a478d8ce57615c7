#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/origin.hpp>
#include <pgbaton/snapshot/recheck.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "fingerprint.hpp"
#include "shape.hpp"

namespace pgbaton::snapshot {

namespace {

// A pattern that matched when the replica was begun may match nothing now; then all tables are looked at.
std::vector<catalog::Table> chosen_tables(pg::Control& source, const state::Replica& replica) {
  CloneOptions options;
  apply_recorded_choice(replica, options);
  auto tables = catalog::load_tables(source);
  try {
    return catalog::apply_filter(tables, options.filter);
  } catch (const Error& error) {
    log::debug("looking for new tables: {}", error.message());
    return tables;
  }
}

std::string event_json(const std::string& table, const std::string& column, const std::string& statement) {
  const nlohmann::json event{{"table", table}, {"column", column}, {"statement", statement}};
  return event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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

// An event and a note for `status`, once.
void ChangeReport::report_column(const Where& where, const std::string& column, std::string_view kind,
                                 const std::string& what, const std::string& statement, state::TableState& seen) {
  const auto table = seen.name.quoted(), quoted = quote_identifier(column);
  if (!warn_once(fmt::format("{}.{} {}", table, quoted, kind),
                 fmt::format("{}: column {} {}; {}", table, quoted, what, statement)))
    return;
  const auto note = fmt::format("column {} {}", quoted, what);
  if (seen.note.find(note) != std::string::npos) return;
  seen.note += (seen.note.empty() ? "" : "; ") + note;
  state::Store(where.target()).add_event(where.replica.name, kind, event_json(table, column, statement));
}

void ChangeReport::compare_shape(const Where& where, const catalog::Table& table, state::TableState& state) {
  const auto change = compare_with_shape(state.source_shape, table);
  if (!change.readable || (change.same_columns && change.same_file)) return;
  const auto on_target = catalog::load_table(where.target(), table.name, Side::target);
  if (!on_target) return;
  const auto stays = [&](const std::string& column) { return on_target->find_column(column) != nullptr; };
  auto seen = state;
  for (const auto& column : change.other)
    report_column(where, column, "column_remade",
                  "is another one on the source than before (made anew, or names were exchanged): rows from before may "
                  "hold other values in it",
                  "`pgbaton clone --restart` copies them again", seen);
  for (const auto& column : change.dropped)
    if (stays(column))
      report_column(where, column, "column_dropped", "was dropped on the source and stays on the target",
                    fmt::format("ALTER TABLE {} DROP COLUMN {}", table.name.quoted(), quote_identifier(column)), seen);
  // Only what the target has in full may count as known: a column that is missing there is still to come.
  const bool has_all = std::ranges::all_of(table.columns, [&](const catalog::Column& column) {
    return column.generated != ' ' || column.name == kGuardColumn || stays(column.name);
  });
  if (has_all && std::ranges::none_of(change.dropped, stays)) seen.source_shape = catalog::shape_json(table);
  if (seen.source_shape == state.source_shape && seen.note == state.note) return;
  state::Store(where.target()).store_observed(where.replica, seen);
  state = std::move(seen);
}

void ChangeReport::look(pg::Control& source, const std::function<pg::Control&()>& target, const state::Replica& replica,
                        std::vector<state::TableState>& tables) {
  std::map<catalog::Oid, state::TableState*> known;
  for (auto& state : tables) known[state.source_oid] = &state;
  for (const auto& table : chosen_tables(source, replica)) {
    const auto quoted = table.name.quoted();
    const auto found = known.find(table.oid);
    if (found == known.end()) {
      const bool partition = table.root_oid != 0 && known.contains(table.root_oid);
      warn_once(quoted,
                fmt::format("{} was created on the source after the copy was planned and is not part of this "
                            "replica: its rows are not on the target; `{}` takes it in",
                            quoted, partition ? "pgbaton follow --drift add-columns" : "pgbaton clone --restart"));
      continue;
    }
    if (publishes_changes(*found->second) && table.identity == catalog::Identity::unusable) {
      warn_once(quoted + " identity",
                fmt::format("{} has no usable identity any more ({}): its updates and deletes are published, so they "
                            "fail on the source or cannot be carried; ALTER TABLE {} REPLICA IDENTITY FULL, or "
                            "give it a primary key",
                            quoted, table.identity_reason, quoted));
    }
    if (found->second->phase != state::TablePhase::skipped) compare_shape({target, replica}, table, *found->second);
  }
}

}  // namespace pgbaton::snapshot
