#include <fmt/format.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/state/switchover.hpp>

#include <algorithm>

#include "version.hpp"

namespace pgbaton::resync {

namespace {

constexpr std::string_view kShadow = "__resync";
constexpr Milliseconds kPoll{50};
// A writer looks once a second, and needs a new connection to the source's slot.
constexpr Milliseconds kFollows{60'000};

// DELETE would fire them where session_replication_role cannot be set.
void require_no_side_effects(state::Store& target, const state::Replica& replica, const QualifiedName& table) {
  if (replica.replica_role) return;
  const auto what = pg::control(Side::target, "looking for triggers of " + table.quoted(), [&] {
    pqxx::nontransaction tx(target.connection());
    return tx
        .exec_params1(
            "select coalesce(string_agg(quote_ident(tgname), ', '), '') from pg_catalog.pg_trigger "
            "where tgrelid = to_regclass($1) and tgenabled <> 'D'",
            table.quoted())[0]
        .as<std::string>();
  });
  if (what.empty()) return;
  throw Error(ErrorKind::preflight,
              "the table has triggers or foreign keys on the target that would fire while it is emptied: " + what)
      .side(Side::target)
      .table(table.quoted())
      .hint("Grant SET ON PARAMETER session_replication_role to the role (or use a superuser), or drop them for now.");
}

Error another(const QualifiedName& table) {
  return Error(ErrorKind::preflight,
               "another table has this name on the source now: the one that the replica has was dropped or renamed")
      .side(Side::source)
      .table(table.quoted())
      .hint(
          "Give the name back to the former table, if there still is one; else start anew with `pgbaton clone "
          "--restart`.");
}

void require_resyncable(state::Store& target, const state::Replica& replica, const catalog::Table& table,
                        const std::vector<state::TableState>& states) {
  const auto state = std::ranges::find(states, table.name, &state::TableState::name);
  const auto refuse = [&](ErrorKind kind, const std::string& why, std::string_view hint) {
    throw Error(kind, why).table(table.name.quoted()).hint(hint);
  };
  if (state == states.end())
    return refuse(ErrorKind::usage, fmt::format("replica {} does not have this table", replica.name),
                  "A new table is taken in with --add; `pgbaton status` lists those that it has.");
  const bool skipped = state->phase == state::TablePhase::skipped;
  if (skipped && !state->detached)
    return refuse(ErrorKind::usage, "the table is not copied: " + state->note, "Leave it out.");
  if (state->phase != state::TablePhase::done && !state->detached)
    return refuse(ErrorKind::usage, fmt::format("its first copy is not complete (phase {})", to_string(state->phase)),
                  "Wait until the replica is ready.");
  if (state->source_oid != table.oid && !skipped) throw another(table.name);
  if (state->detached) return;  // of a run that did not end
  require_no_side_effects(target, replica, table.name);
}

// The version in force after it.
std::int64_t mark(state::Store& store, const state::Replica& replica, const std::vector<QualifiedName>& tables) {
  return pg::control(Side::target, "taking tables out of the stream", [&] {
    pqxx::work tx(store.connection());
    lock_progress(tx, replica);
    std::size_t changed = 0;
    for (const auto& table : tables)
      changed += tx.exec_params(
                       "update pgbaton.table_state set detached = true where replica = $1 and generation = $2 "
                       "and schema_name = $3 and table_name = $4 and not detached",
                       replica.name, replica.generation, table.schema, table.name)
                     .affected_rows();
    const auto version = raise_version(tx, replica, changed > 0);
    tx.commit();
    return version;
  });
}

// A writer that died may have left a transaction behind that holds rows of the tables.
bool nobody_writes(state::Store& store, const state::Replica& replica) {
  if (state::Lease::held(store.connection(), replica.name)) return false;
  return pg::control(Side::target, "looking for apply sessions", [&] {
    pqxx::nontransaction tx(store.connection());
    return tx
        .exec_params(
            "select from pg_catalog.pg_stat_activity where datname = current_database() and application_name = $1 and "
            "xact_start is not null",
            fmt::format("pgbaton/{}/{}", replica.name, state::kApplyRole))
        .empty();
  });
}

}  // namespace

ReplicaNames shadow_names(const ReplicaNames& names) {
  ReplicaNames shadow = names;
  shadow.name += kShadow;
  shadow.base += kShadow;
  shadow.publication_inserts = shadow.base + "__ins";
  return shadow;
}

std::vector<QualifiedName> find_tables(pg::Control& source, state::Store& target, const state::Replica& replica,
                                       const std::vector<std::string>& arguments) {
  const auto states = target.load_tables(replica);
  std::vector<QualifiedName> result;
  for (const auto& table : matching_tables(source, arguments)) {
    if (table.kind == 'p') continue;
    require_resyncable(target, replica, table, states);
    result.push_back(table.name);
  }
  if (result.empty()) throw Error(ErrorKind::usage, "none of the named tables has rows of its own");
  std::ranges::sort(result);
  return result;
}

void require_same_tables(state::Store& store, const state::Replica& replica, const std::string& shadow) {
  const auto planned = store.load_replica(shadow);
  if (!planned) return;
  const auto ours = store.load_tables(replica);
  for (const auto& table : store.load_tables(*planned)) {
    const auto state = std::ranges::find(ours, table.name, &state::TableState::name);
    if (state != ours.end() && state->source_oid != table.source_oid) throw another(table.name);
    const auto same = std::ranges::find(ours, table.source_oid, &state::TableState::source_oid);
    if (state == ours.end() && same != ours.end()) throw another(same->name);
  }
}

std::vector<catalog::TableChoice> choices_of(pg::Control& source, const state::Replica& replica,
                                             const std::vector<QualifiedName>& tables) {
  const auto recorded = catalog::recorded_choices(replica.options);
  if (recorded.empty()) return {};
  auto all = catalog::load_tables(source);
  catalog::apply_choices(all, recorded);
  std::vector<catalog::TableChoice> choices;
  for (const auto& table : all) {
    if (std::ranges::find(tables, table.name) == tables.end() || !catalog::has_choice(table)) continue;
    auto& choice = choices.emplace_back();
    choice.name = table.name.quoted();
    choice.where = table.row_filter;
    if (!table.has_column_list) continue;
    for (const auto& column : table.columns)
      if (column.carried && column.generated == ' ' && column.name != kGuardColumn)
        choice.columns.push_back(quote_identifier(column.name));
  }
  return choices;
}

void detach(state::Store& store, const state::Replica& replica, const std::vector<QualifiedName>& tables,
            const std::function<void()>& while_waiting, const std::stop_token& stop) {
  const auto version = mark(store, replica, tables);
  PGBATON_FAILPOINT("resync_detached");
  wait_until_obeyed(store, replica, version, while_waiting, stop);
  PGBATON_FAILPOINT("resync_followed");
}

std::vector<catalog::Table> matching_tables(pg::Control& source, const std::vector<std::string>& arguments) try {
  catalog::TableFilter filter;
  filter.include_tables = arguments;
  return catalog::apply_filter(catalog::load_tables(source), filter);
} catch (const Error& error) {
  constexpr std::string_view kOption = "--include-table: ";  // here they are arguments
  auto message = error.message();
  if (!message.starts_with(kOption)) throw;
  message.erase(0, kOption.size());
  throw Error(error.kind(), message).hint(error.hint());
}

void lock_progress(pqxx::transaction_base& tx, const state::Replica& replica) {
  tx.exec_params("select from pgbaton.progress where replica = $1 and generation = $2 for update", replica.name,
                 replica.generation);
  const auto row = tx.exec_params("select direction from pgbaton.replica where name = $1 and generation = $2",
                                  replica.name, replica.generation);
  if (!row.empty() && row[0][0].as<std::string>() != state::kSwitched) return;
  throw Error(ErrorKind::held_elsewhere, fmt::format("replica {} has ended or changed sides meanwhile", replica.name))
      .side(Side::target)
      .hint("Nothing was changed; `pgbaton status` tells what there is.");
}

std::int64_t raise_version(pqxx::transaction_base& tx, const state::Replica& replica, bool changed) {
  const auto version = tx.exec_params(
      "update pgbaton.progress set tables_version = tables_version + $3::int where replica = $1 and "
      "generation = $2 returning tables_version",
      replica.name, replica.generation, changed ? 1 : 0);
  if (!version.empty()) return version[0][0].as<std::int64_t>();
  throw Error(ErrorKind::failed, fmt::format("replica {} has no progress row on the target", replica.name))
      .side(Side::target)
      .hint("The replica was removed or begun anew meanwhile: see `pgbaton status`.");
}

void wait_until_obeyed(state::Store& store, const state::Replica& replica, std::int64_t version,
                       const std::function<void()>& while_waiting, const std::stop_token& stop) {
  const auto follows = Deadline::after(kFollows);
  while (store.load_progress(replica).tables_obeyed < version && !nobody_writes(store, replica)) {
    if (follows.passed())
      throw Error(ErrorKind::timed_out,
                  fmt::format("the writer of replica {} has not taken up within {} which tables are in its stream",
                              replica.name, format_duration(kFollows)))
          .side(Side::target)
          .hint(
              "It may have no connection, or be an older version of pgbaton: see `pgbaton status`, then run the same "
              "command again.");
    if (while_waiting) while_waiting();
    if (!sleep_for(kPoll, stop)) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
  }
}

}  // namespace pgbaton::resync
