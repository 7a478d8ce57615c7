#include <fmt/format.h>
#include <pgbaton/base/name.hpp>
#include <pgbaton/source/lock_holders.hpp>
#include <pgbaton/source/slot.hpp>

namespace pgbaton::source {
namespace {

// Whoever has a transaction id, in any database: the slot waits for all of them. Read from pg_locks, because a role
// without pg_read_all_stats is not shown the xid of others in pg_stat_activity, but still their lock and pid. Prepared
// transactions hold their lock without a pid. Walsenders are left out: they never hold one, only wait.
constexpr const char* kBlockersQuery = R"(
select h.pid, '' as gid, coalesce(a.datname, '') as database, coalesce(a.usename, '') as user_name,
       coalesce(a.application_name, '') as application_name, coalesce(a.state, '') as state,
       left(regexp_replace(coalesce(a.query, ''), '\s+', ' ', 'g'), 100) as query,
       coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8 as age
  from (select distinct pid from pg_locks
         where locktype = 'transactionid' and mode = 'ExclusiveLock' and granted and pid is not null) h
       left join pg_stat_activity a on a.pid = h.pid
 where h.pid <> pg_backend_pid()
union all
select 0, gid, database, owner, '', 'prepared', '', extract(epoch from clock_timestamp() - prepared)::float8
  from pg_prepared_xacts
 order by age desc limit 20)";

constexpr const char* kHoldersQuery = R"(
select coalesce(l.pid, 0) as pid, coalesce(p.gid, '') as gid, coalesce(a.datname, p.database, '') as database,
       coalesce(a.usename, p.owner, '') as user_name, coalesce(a.application_name, '') as application_name,
       coalesce(a.state, '') as state, left(regexp_replace(coalesce(a.query, ''), '\s+', ' ', 'g'), 100) as query,
       coalesce(extract(epoch from clock_timestamp() - coalesce(a.xact_start, p.prepared)), 0)::float8 as age
  from (select distinct pid, virtualtransaction from pg_locks
         where locktype = 'relation' and relation = $1 and granted and pid is distinct from pg_backend_pid()
           and database = (select oid from pg_database where datname = current_database())) l
       left join pg_stat_activity a on a.pid = l.pid
       left join pg_prepared_xacts p on l.pid is null and p.transaction::text = split_part(l.virtualtransaction, '/', 2)
 order by age desc limit 20)";

Blocker read_blocker(const pqxx::row& row) {
  Blocker blocker;
  blocker.pid = row["pid"].as<int>();
  blocker.gid = row["gid"].as<std::string>();
  blocker.database = row["database"].as<std::string>();
  blocker.user = row["user_name"].as<std::string>();
  blocker.application_name = row["application_name"].as<std::string>();
  blocker.state = row["state"].as<std::string>();
  blocker.query = row["query"].as<std::string>();
  blocker.age_seconds = row["age"].as<double>();
  return blocker;
}

std::string duration(double seconds) {
  return format_duration(std::chrono::duration_cast<Milliseconds>(std::chrono::duration<double>(seconds)));
}

}  // namespace

std::vector<Blocker> load_blockers(pg::Control& source) {
  return pg::control(Side::source, "looking for open transactions", [&] {
    pqxx::nontransaction transaction(source);
    std::vector<Blocker> blockers;
    for (const auto& row : transaction.exec(kBlockersQuery)) blockers.push_back(read_blocker(row));
    return blockers;
  });
}

std::vector<Blocker> load_lock_holders(pg::Control& source, std::uint32_t table) {
  return pg::control(Side::source, "looking for whoever holds a table", [&] {
    pqxx::nontransaction transaction(source);
    std::vector<Blocker> holders;
    for (const auto& row : transaction.exec_params(kHoldersQuery, table)) holders.push_back(read_blocker(row));
    return holders;
  });
}

std::string describe(const Blocker& blocker) {
  if (blocker.pid == 0) {
    return fmt::format("prepared transaction {} (database {}, user {}, prepared {} ago)", quote_literal(blocker.gid),
                       blocker.database, blocker.user, duration(blocker.age_seconds));
  }
  auto text = fmt::format("pid {} (database {}, user {}", blocker.pid, blocker.database, blocker.user);
  if (!blocker.application_name.empty()) text += fmt::format(", {}", blocker.application_name);
  if (!blocker.state.empty()) text += fmt::format(", {}", blocker.state);
  text += fmt::format(", open for {})", duration(blocker.age_seconds));
  if (!blocker.query.empty()) text += fmt::format(": {}", blocker.query);
  return text;
}

}  // namespace pgbaton::source
