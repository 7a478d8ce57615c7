// --add: tables that the replica does not have yet.
#include <fmt/format.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/embedded_sql.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/publication.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "version.hpp"

namespace pgbaton::resync {

namespace {

[[noreturn]] void refuse(const catalog::Table& table, ErrorKind kind, const std::string& why, std::string_view hint) {
  throw Error(kind, why).table(table.name.quoted()).hint(hint);
}

// As a whole, so that partitions attached later are in the stream, too.
bool publishes_root(pg::Control& source, const state::Replica& replica, catalog::Oid root) {
  return pg::control(Side::source, "looking for a partitioned table in the publications", [&] {
    pqxx::nontransaction tx(source);
    return !tx.exec_params(
                  "select from pg_catalog.pg_publication p join pg_catalog.pg_publication_rel r on r.prpubid = p.oid "
                  "where r.prrelid = $1 and p.pubname in ($2, $3)",
                  root, replica.publication, replica.publication_inserts)
                .empty();
  });
}

void require_addable(pg::Control& source, const catalog::Table& table, const state::Replica& replica,
                     const std::vector<state::TableState>& states) {
  const auto state = std::ranges::find(states, table.name, &state::TableState::name);
  if (state != states.end() && !state->detached)
    refuse(table, ErrorKind::usage, fmt::format("replica {} has this table already", replica.name),
           "Without --add it is copied again.");
  if (const auto same = std::ranges::find(states, table.oid, &state::TableState::source_oid);
      same != states.end() && state == states.end())
    refuse(table, ErrorKind::preflight,
           fmt::format("replica {} has this table already, under the name {}", replica.name, same->name.quoted()),
           "`pgbaton verify` says what to do about the name.");
  if (table.root_oid != 0 &&
      std::ranges::find(states, table.root_oid, &state::TableState::source_oid) != states.end() &&
      state == states.end())
    publishes_root(source, replica, table.root_oid)
        ? refuse(table, ErrorKind::preflight, "it is a partition of a table that the replica has",
                 "`pgbaton follow --drift add-columns` takes in new partitions when their first row comes.")
        : refuse(table, ErrorKind::preflight,
                 "it is a partition of a table whose partitions are published one by one, and of those attached later "
                 "no stream can take in any",
                 "`pgbaton clone --restart` begins anew, with this partition.");
  if (table.persistence == 'u')
    refuse(table, ErrorKind::preflight, "it is unlogged: its rows are in no stream",
           "ALTER TABLE … SET LOGGED on the source first, or do without its rows on the target.");
  if (table.kind == 'r' && table.identity == catalog::Identity::unusable && replica.publication_inserts.empty())
    refuse(table, ErrorKind::preflight,
           "it has no usable identity (" + table.identity_reason +
               "), and the replica has no publication for inserts only",
           "Give it a primary key, or clone it as a replica of its own (--name).");
}

}  // namespace

std::vector<QualifiedName> find_new_tables(pg::Control& source, state::Store& target, const state::Replica& replica,
                                           const std::vector<std::string>& arguments) {
  if (!replica.owns_publication)
    throw Error(ErrorKind::preflight,
                "the publication of this replica was made by an administrator: --add cannot put "
                "tables into it")
        .side(Side::source)
        .hint("Clone the new tables as a replica of their own (--name).");
  if (!replica.replica_role)
    throw Error(ErrorKind::preflight, "--add needs the right to set session_replication_role on the target")
        .side(Side::target)
        .hint(
            "Grant SET ON PARAMETER session_replication_role to the role, or clone the new tables as a replica of "
            "their own (--name).");
  const auto states = target.load_tables(replica);
  std::vector<QualifiedName> result;
  for (const auto& table : matching_tables(source, arguments)) {
    require_addable(source, table, replica, states);
    result.push_back(table.name);
  }
  std::ranges::sort(result);
  return result;
}

state::GuardKind recorded_guard(const state::Replica& replica) {
  const auto recorded = nlohmann::json::parse(replica.options, nullptr, false);
  return state::parse_guard_kind(recorded.is_object() ? recorded.value("guard", "column") : "column");
}

bool adds_tables(const state::Replica& shadow) {
  const auto recorded = nlohmann::json::parse(shadow.options, nullptr, false);
  return recorded.is_object() && recorded.value("schema", "none") == "full";
}

std::vector<QualifiedName> recorded_tables(const state::Replica& shadow) {
  std::vector<QualifiedName> tables;
  const auto recorded = nlohmann::json::parse(shadow.options, nullptr, false);
  if (recorded.is_object())
    for (const auto& name : recorded.value("include_tables", std::vector<std::string>()))
      tables.push_back(parse_qualified_name(name));
  return tables;
}

void announce(pg::Control& source, state::Store& store, const state::Replica& replica, const std::string& shadow,
              const std::function<void()>& while_waiting, const std::stop_token& stop) {
  const auto other = store.load_replica(shadow);
  if (!other) throw Error(ErrorKind::failed, "the replica " + shadow + " is gone from the target").side(Side::target);
  const auto version = pg::control(Side::target, "recording new tables", [&] {
    pqxx::work tx(store.connection());
    lock_progress(tx, replica);
    const auto added = tx.exec_params(std::string(sql::resync_announce), replica.name, replica.generation, shadow);
    const auto now = raise_version(tx, replica, added.affected_rows() > 0);
    tx.commit();
    return now;
  });
  PGBATON_FAILPOINT("resync_announced");
  wait_until_obeyed(store, replica, version, while_waiting, stop);
  // Only now, because the stream refuses rows of tables that it does not know.
  source::extend_publication(source, replica.publication, other->publication);
  if (!other->publication_inserts.empty())
    source::extend_publication(source, replica.publication_inserts, other->publication_inserts);
  PGBATON_FAILPOINT("resync_published");
  // What is published now is what must stay so. One that was altered otherwise stays as it was recorded.
  if (!source::publication_changes(source, replica.publication_state).empty()) return;
  pg::control(Side::target, "recording the publications", [&] {
    pqxx::work tx(store.connection());
    tx.exec_params("update pgbaton.replica set publication_state = $3::json where name = $1 and generation = $2",
                   replica.name, replica.generation, source::load_publication_state(source, replica.publications()));
    tx.commit();
  });
}

}  // namespace pgbaton::resync
