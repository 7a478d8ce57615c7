// Taking a replica away: what finish, drop and --restart share. User tables stay.
//
// The target's state says what belongs to the replica. A slot or publication that no state names is removed only when
// the target cannot be asked at all; then the names are those that this replica would have given.
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/event_triggers.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/pg/ping.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/snapshot/way_back.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/switchover.hpp>

#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include <functional>
#include <optional>
#include <set>

#include "definitions.hpp"
#include "empty_tables.hpp"
#include "generation.hpp"
#include "identity_full.hpp"
#include "preflight.hpp"
#include "remnants.hpp"

namespace pgbaton::snapshot {

namespace {

using state::TablePhase;

// Runs one removal; a failure becomes a line of what is left.
bool attempt(RemovalReport& report, const std::string& what, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    report.left.push_back(fmt::format("{}: {}{}{}", what, error.describe(), error.has_hint() ? ". " : "",
                                      error.has_hint() ? error.hint() : ""));
    return false;
  }
}

std::unique_ptr<pg::Control> open_or_report(const pg::Endpoint& endpoint, RemovalReport& report,
                                            const std::string& what_stays) {
  std::unique_ptr<pg::Control> connection;
  attempt(report, what_stays, [&] { connection = pg::open_control(endpoint, "remove"); });
  return connection;
}

// What a switchover that was given up leaves on the target, or a rollback: nobody but pgbaton may write there. A former
// source that is streamed back into stays closed.
bool remove_target_fence(pg::Control& target, const state::Replica& replica, RemovalReport& report) {
  return attempt(report, "schema pgbaton_fence on the target", [&] {
    pg::control(Side::target, "removing the fence of the target", [&] {
      pqxx::work tx(target);
      const auto found = tx.exec_params(
          "select from pg_catalog.pg_namespace where nspname = 'pgbaton_fence' and "
          "(starts_with(pg_catalog.obj_description(oid, 'pg_namespace'), $1) or "
          "starts_with(pg_catalog.obj_description(oid, 'pg_namespace'), $2) and not $3)",
          fmt::format("target of replica {}:", replica.name),
          fmt::format("source of replica {}: switched over", replica.name), replica.direction == state::kReverse);
      if (found.empty()) return;
      tx.exec0("set local lock_timeout = '10s'; set local client_min_messages = warning");
      tx.exec0("drop schema pgbaton_fence cascade");
      tx.commit();
      report.removed.push_back("fence on the target");
    });
  });
}

bool remove_way_back(pg::Control& target, const std::string& name, RemovalReport& report) {
  return attempt(report, "slot and publications of the way back on the target", [&] {
    if (const auto found = state::load_way_back(target, name))
      for (auto& line : drop_way_back_objects(target, *found)) report.removed.push_back(std::move(line));
  });
}

void remove_way_back_row(pg::Control& source, const state::Replica& replica, RemovalReport& report) {
  attempt(report, "record of the way back on the source", [&] {
    if (forget_way_back_to(source, replica)) report.removed.push_back("record of the way back on the source");
  });
}

// Guard columns first: as long as one is left the state must know of it.
bool remove_guards(pg::Control& target, state::Store& store, const state::Replica& replica, RemovalReport& report) {
  auto roots = load_target_roots(target);
  std::set<QualifiedName> guarded, done;
  for (const auto& table : catalog::load_tables(target, {}, Side::target))
    if (table.has_guard_column) guarded.insert(table.name);
  bool all = true;
  std::int64_t ledgers = 0;
  for (auto& table : store.load_tables(replica)) {
    if (!table.ledger.empty())
      all = attempt(report, "ledger of " + table.name.quoted(),
                    [&] {
                      copy::drop_ledger(target, table.ledger);
                      ++ledgers;
                    }) &&
            all;
    if (table.guard != state::GuardKind::column) continue;
    auto root = roots.find(table.name);
    const auto& holder = root == roots.end() ? table.name : root->second;
    bool dropped = !guarded.contains(holder) || done.contains(holder) ||
                   attempt(report, "guard column of " + holder.quoted(), [&] {
                     copy::drop_guard(target, holder);
                     done.insert(holder);
                     PGBATON_FAILPOINT("guard_dropped");
                   });
    all = all && dropped;
  }
  all = remove_target_fence(target, replica, report) && all;
  if (!done.empty() && all)
    report.removed.push_back(
        fmt::format("guard columns of {} on the target", counted(static_cast<std::int64_t>(done.size()), "table")));
  if (ledgers > 0 && all)
    report.removed.push_back(fmt::format("ledgers of {} on the target", counted(ledgers, "table")));
  return all;
}

void remove_state(state::Store& store, const std::string& name, RemovalReport& report) {
  attempt(report, "state of the replica on the target", [&] {
    store.delete_replica(name);
    PGBATON_FAILPOINT("state_deleted");
    report.removed.push_back(fmt::format("state of replica {} on the target", name));
  });
  attempt(report, "schema pgbaton on the target", [&] { store.drop_schema_if_unused(); });
}

// The names that this replica would have given, for when nobody can say what it has.
state::Replica assumed(const ReplicaNames& names) {
  state::Replica replica;
  replica.name = names.name;
  replica.slot = replica.publication = names.base;
  replica.publication_inserts = names.publication_inserts;
  return replica;
}

bool remove_identities(pg::Control& server, Side side, const state::Replica& replica, RemovalReport& report) {
  return attempt(report, fmt::format("REPLICA IDENTITY FULL of tables on the {} (keyless: full)", to_string(side)),
                 [&] {
                   for (auto& line : put_identities_back(server, side, replica))
                     report.removed.push_back(std::move(line));
                 });
}

bool remove_from_source(pg::Control& source, const state::Replica& replica, bool known, RemovalReport& report) {
  return attempt(report, fmt::format("slot {} and publications on the source", replica.slot),
                 [&] {
                   const catalog::EventTriggersSilenced silent(source, Side::source);
                   auto slot = source::load_slot(source, replica.slot);
                   if (slot && slot->active && !known)
                     throw Error(ErrorKind::held_elsewhere,
                                 fmt::format("slot {} is in use by pid {}", replica.slot, slot->active_pid))
                         .side(Side::source)
                         .hint("Without the target nobody can say whose it is; stop its user or drop it by hand.");
                   for (auto& line : remove_remnants(source, replica)) report.removed.push_back(std::move(line));
                 }) &&
         remove_identities(source, Side::source, replica, report);
}

std::string source_by_hand(const state::Replica& replica) {
  auto text = fmt::format("slot on the source, SELECT pg_drop_replication_slot({})", quote_literal(replica.slot));
  for (const auto& name : {replica.publication, replica.publication_inserts})
    if (replica.owns_publication && !name.empty()) text += "; DROP PUBLICATION IF EXISTS " + quote_identifier(name);
  return text;
}

// The state goes last: without it the next run could not tell the slot from another replica's and would leave it to pin
// WAL on the source for good.
std::string state_by_hand(const std::string& name) {
  return fmt::format(
      "state of replica {} on the target: the next drop needs it to know what is its own on the source. If the source "
      "is gone for good: pgbaton drop{} --source-is-gone",
      name, name == "default" ? "" : " --name " + name);
}

// Names of ours that no state knows, where the target was asked: they may be another replica's.
void report_unknown(pg::Control& source, const ReplicaNames& names, RemovalReport& report) {
  attempt(report, "looking for remnants on the source", [&] {
    if (source::load_slot(source, names.base))
      report.left.push_back(
          fmt::format("slot {} on the source: this target's state does not know it. If it is a "
                      "remnant: SELECT pg_drop_replication_slot({})",
                      names.base, quote_literal(names.base)));
    for (const auto& name : {names.base, names.publication_inserts})
      if (source::publication_exists(source, name))
        report.left.push_back(
            fmt::format("publication {} on the source: this target's state does not know it. If it is "
                        "a remnant: DROP PUBLICATION {}",
                        name, quote_identifier(name)));
  });
}

// A slot's name is unique in its cluster: where it is in this database, the database was renamed.
void require_own_source(pg::Control& source, const state::Replica& replica) {
  auto server = catalog::load_server(source, Side::source);
  const auto slot = source::load_slot(source, replica.slot);
  if (slot && slot->database == server.database && server.system_identifier == replica.source_system_id) return;
  require_same_source(server, replica);
}

}  // namespace

void require_own_source(const pg::Endpoint& source_endpoint, const pg::Endpoint& target_endpoint,
                        const std::string& name) {
  RemovalReport unreachable;
  const auto target = open_or_report(target_endpoint, unreachable, "");
  if (!target) return;
  state::Store store(*target);
  const auto replica = store.installed() ? store.load_replica(name) : std::nullopt;
  if (!replica) return;
  if (const auto source = open_or_report(source_endpoint, unreachable, "")) require_own_source(*source, *replica);
}

RemovalReport remove_replica(const pg::Endpoint& source_endpoint, const pg::Endpoint& target_endpoint,
                             const ReplicaNames& names) {
  RemovalReport report;
  auto target = open_or_report(target_endpoint, report, "guard columns and state on the target");
  std::optional<state::Replica> replica;
  std::optional<state::Store> store;
  std::optional<catalog::EventTriggersSilenced> silent;
  bool asked = target && attempt(report, "state on the target", [&] {
                 silent.emplace(*target, Side::target);
                 store.emplace(*target);
                 replica = store->load_replica(names.name);
               });
  auto known = replica.value_or(assumed(names));
  auto source = open_or_report(source_endpoint, report, source_by_hand(known));
  if (source && replica) require_own_source(*source, *replica);
  if (target && replica && state::readers_on_target(*target, *replica))
    log::warning(
        "readers of the application were sent to the target; its rows grow old from now on, and nothing sends "
        "them back any more");
  bool source_clean = false;
  if (source && asked && !replica) {
    report_unknown(*source, names, report);
  } else if (source) {
    source_clean = remove_from_source(*source, known, replica.has_value(), report);
  }
  PGBATON_FAILPOINT("source_removed");
  // A run that was killed after its last step but one has left the empty schema.
  if (asked && !replica) attempt(report, "schema pgbaton on the target", [&] { store->drop_schema_if_unused(); });
  if (!replica || !remove_guards(*target, *store, *replica, report)) return report;
  if (!remove_identities(*target, Side::target, *replica, report)) return report;
  PGBATON_FAILPOINT("guards_dropped");
  source_clean = remove_way_back(*target, names.name, report) && source_clean;
  if (source_clean) {
    remove_way_back_row(*source, *replica, report);
    remove_state(*store, names.name, report);
  } else {
    report.left.push_back(state_by_hand(names.name));
  }
  return report;
}

namespace {

[[noreturn]] void throw_not_gone(const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, "--source-is-gone: " + what).side(Side::source).hint(hint);
}

// In the source's cluster, whatever database the connection string names. The slot's name is unique there, and while a
// database is there it may have publications of ours.
bool has_remnants(pg::Control& source, const state::Replica& replica) {
  return pg::control(Side::source, "looking for the replica's slot and database", [&] {
    pqxx::nontransaction tx(source);
    return tx
        .exec_params1(
            "select exists (select from pg_catalog.pg_database where datname = $1) or exists (select from "
            "pg_catalog.pg_replication_slots where slot_name = $2)",
            replica.source_database, replica.slot)[0]
        .as<bool>();
  });
}

}  // namespace

void require_source_gone(const pg::Endpoint& source_endpoint, const pg::Endpoint& target_endpoint,
                         const std::string& name) {
  const auto target = pg::open_control(target_endpoint, "remove");
  const auto replica = state::Store(*target).load_replica(name);
  if (!replica) return;
  std::unique_ptr<pg::Control> source;
  try {
    source = pg::open_control(source_endpoint, "remove");
  } catch (const Error& error) {
    if (error.sqlstate().empty() && !pg::answers(source_endpoint)) return;
    throw_not_gone(
        "a server answers at the source's address, and may have a slot of this replica (" + error.message() + ")",
        "Mend the connection and leave --source-is-gone out: pgbaton drop removes both sides. If this server "
        "is not the source, give no --source (nor PGBATON_SOURCE, nor source: in a file).");
  }
  const auto server = catalog::load_server(*source, Side::source);
  const bool other_cluster = server.system_identifier != 0 && server.system_identifier != replica->source_system_id;
  if (other_cluster || !has_remnants(*source, *replica)) return;
  if (server.database == replica->source_database)
    throw_not_gone("the source answers, and may have a slot of this replica",
                   "Leave --source-is-gone out: pgbaton drop removes both sides.");
  throw_not_gone(fmt::format("the source's cluster answers (as database {}), and may have a slot of this replica",
                             quote_identifier(server.database)),
                 fmt::format("Name database {} in --source and leave --source-is-gone out: pgbaton drop removes both "
                             "sides.",
                             quote_identifier(replica->source_database)));
}

RemovalReport end_switched_stream(const pg::Endpoint& source_endpoint, const pg::Endpoint& target_endpoint,
                                  const std::string& name, bool keep) {
  RemovalReport report;
  constexpr std::string_view kRole = "switchover";  // a follower that has turned round works beside it
  const auto target = pg::open_control(target_endpoint, kRole);
  const catalog::EventTriggersSilenced silent(*target, Side::target);
  state::Store store(*target);
  const auto replica = store.load_replica(name);
  if (!replica || replica->direction != state::kSwitched) return report;
  if (!replica->slot.empty()) {
    const auto source = pg::open_control(source_endpoint, kRole);
    require_own_source(*source, *replica);
    if (!remove_from_source(*source, *replica, true, report)) return report;
    PGBATON_FAILPOINT("source_removed");
  }
  if (!remove_guards(*target, store, *replica, report)) return report;
  PGBATON_FAILPOINT("guards_dropped");
  if (keep)
    attempt(report, "state of what was switched over", [&] { state::keep_way_back_alone(*target, name); });
  else
    remove_state(store, name, report);
  return report;
}

RemovalReport remove_from_target(const pg::Endpoint& target_endpoint, const ReplicaNames& names) {
  RemovalReport report;
  const auto target = pg::open_control(target_endpoint, "remove");
  const catalog::EventTriggersSilenced silent(*target, Side::target);
  state::Store store(*target);
  const auto replica = store.load_replica(names.name);
  if (!replica || !remove_guards(*target, store, *replica, report)) return report;
  if (!remove_identities(*target, Side::target, *replica, report)) return report;
  PGBATON_FAILPOINT("guards_dropped");
  if (!remove_way_back(*target, names.name, report)) return report;
  remove_state(store, names.name, report);
  log::warning("should the source come back, remove there by hand: {}", source_by_hand(*replica));
  return report;
}

// The replica row stays, in phase creating and with its schema marked as restored: so the next run knows that the empty
// tables it finds are its own.
void reset_replica(const pg::Endpoint& source_endpoint, const pg::Endpoint& target_endpoint, const std::string& name) {
  auto target = pg::open_control(target_endpoint, "reset");
  const catalog::EventTriggersSilenced silent(*target, Side::target);
  state::Store store(*target);
  auto replica = store.load_replica(name);
  if (!replica) return;
  auto source = pg::open_control(source_endpoint, "reset");
  require_own_source(*source, *replica);
  auto tables = store.load_tables(*replica);
  if (state::readers_on_target(*target, *replica))
    throw Error(ErrorKind::usage, "readers of the application were sent to the target, which --restart would empty")
        .side(Side::target)
        .hint("`pgbaton switchover --undo` sends them back.");
  require_own_tables(*target, tables);
  RemovalReport report;
  if (!remove_guards(*target, store, *replica, report))
    throw Error(ErrorKind::rejected, "--restart: " + report.left.front())
        .side(Side::target)
        .hint("Drop what depends on the guard column, then run the same command again.");
  if (!remove_way_back(*target, name, report))
    throw Error(ErrorKind::failed, "--restart: " + report.left.front()).side(Side::target);
  empty_tables(*target, *replica, tables);
  PGBATON_FAILPOINT("reset_emptied");
  for (const auto& line : remove_remnants(*source, *replica)) log::info("removed {}", line);
  PGBATON_FAILPOINT("reset_source");
  for (auto& table : tables) {
    if (table.phase != TablePhase::skipped) table.phase = TablePhase::pending;
    table.ledger.clear();
    table.ledger_key.clear();
  }
  store.replace_generation(*replica, tables);
  log::info("replica {}: emptied for a new start", name);
}

}  // namespace pgbaton::snapshot
