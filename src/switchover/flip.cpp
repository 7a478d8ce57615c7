// What changes on the two sides around the flip.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/copy/sequences.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/switchover_embedded_sql.hpp>

#include <map>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

// Of the tables of this replica and of their parents; those that got it by inheritance lose it with the parent, or,
// where it is their own as well, in the next round.
constexpr const char* kGuarded = R"(
with recursive mine as (
  select c.oid from pgbaton.table_state s join pg_catalog.pg_namespace n on n.nspname = s.schema_name
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = s.table_name
   where s.replica = $1 and s.guard = 'column'
  union
  select i.inhparent from mine join pg_catalog.pg_inherits i on i.inhrelid = mine.oid
)
select format('%I.%I', n.nspname, c.relname)
  from mine join pg_catalog.pg_class c on c.oid = mine.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid
 where a.attname = $2 and not a.attisdropped and a.attinhcount = 0 and a.atttypid = 'pg_lsn'::regtype
 order by 1)";

// A reader of the target must not hold the writers of the source up for long.
// A conductor that is frozen in the middle must not keep both sides closed.
constexpr const char* kSettings =
    "set local lock_timeout = '2s'; set local idle_in_transaction_session_timeout = '3s'; set local "
    "client_min_messages = warning";
constexpr int kRounds = 100;  // a tree of inheritance is not deeper

void drop_guards(pqxx::work& tx, const state::Replica& replica) {
  for (int round = 0; round < kRounds; ++round) {
    std::string statements;
    for (auto row : tx.exec_params(kGuarded, replica.name, std::string(kGuardColumn)))
      statements +=
          fmt::format("alter table {} drop column {};", row[0].as<std::string>(), quote_identifier(kGuardColumn));
    if (statements.empty()) return;
    tx.exec(statements);
  }
}

// The next value of `to` lies beyond everything that `from` may give for a while. Also of one that was never called, if
// its limits leave the room.
bool far_enough(const catalog::Sequence& from, const catalog::Sequence& to, std::int64_t gap) {
  std::int64_t needed = 0, wanted = 0;
  const bool fits = !__builtin_mul_overflow(gap / 2, from.increment, &needed) &&
                    !__builtin_add_overflow(from.last_value, needed, &wanted) && wanted >= to.minimum &&
                    wanted <= to.maximum;
  if (!fits) return !from.is_called;
  if (to.last_value == wanted) return to.is_called || !from.is_called;
  return (to.last_value > wanted) == (from.increment > 0);
}

}  // namespace

void flip(pg::Control& target, const state::Replica& replica, std::int64_t attempt, Lsn barrier_lsn, Lsn from_lsn,
          const std::function<void()>& before_commit) {
  pg::control(Side::target, "opening the target", [&] {
    pqxx::work tx(target);
    tx.exec(kSettings);
    // Event triggers of the application have no say in what is ours.
    if (replica.replica_role) tx.exec("set local session_replication_role = replica");
    drop_guards(tx, replica);
    tx.exec("drop schema if exists pgbaton_fence cascade");
    state::flip_switchover(tx, attempt, replica, barrier_lsn, from_lsn);
    PGBATON_FAILPOINT("switchover_before_flip");
    before_commit();
    tx.commit();
  });
  PGBATON_FAILPOINT("switchover_flipped");
}

std::string bring_sequences(pg::Control& source, pg::Control& target, std::int64_t gap) {
  std::map<QualifiedName, catalog::Sequence> there;
  for (auto& sequence : catalog::load_sequences(target, Side::target)) there.emplace(sequence.name, sequence);
  const auto here = catalog::load_sequences(source, Side::source);
  for (const auto& sequence : here) {
    const auto found = there.find(sequence.name);
    if (found == there.end() || far_enough(sequence, found->second, gap)) continue;
    const auto set = copy::advance_sequences(source, target, gap);
    return fmt::format("{} set, {} beyond", set, gap);
  }
  return fmt::format("{} are far enough", here.size());
}

std::string shape_of(pg::Control& source) {
  return pg::control(Side::source, "looking for DDL", [&] {
    pqxx::nontransaction tx(source);
    return tx.exec1(std::string(sql::shape))[0].as<std::string>();
  });
}

std::string source_about(const std::string& replica, const std::string& what) {
  return fmt::format("source of replica {}: {}", replica, what);
}

std::string switched_to(pg::Control& target) {
  const auto server = catalog::load_server(target, Side::target);
  return fmt::format("{} to database {} of system {}", kSwitchedOver, quote_identifier(server.database),
                     server.system_identifier);
}

std::string target_about(const std::string& replica) {
  return fmt::format("target of replica {}: only pgbaton may write here before a switchover has ended", replica);
}

}  // namespace pgbaton::switchover
