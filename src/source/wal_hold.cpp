#include <fmt/format.h>

#include <algorithm>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/source/wal_hold.hpp>

namespace pgbaton::source {

namespace {

// Names of slots are made of a-z, 0-9 and _, and those of replicas hold no double underscore.
std::string pattern(const OwnSlots& own) {
  return fmt::format("^({0}(__read)?|({0}|{1})__(tmp_[0-9]+|resync(__.*)?{2}))$", own.slot, own.base,
                     own.generations ? "|g[0-9]+(__.*)?" : "");
}

std::string hold_query(int version_num) {
  return fmt::format(R"(
select s.slot_name, {} as wal_status, s.temporary, s.active,
       case when s.restart_lsn is null then 0 else greatest(pg_catalog.pg_wal_lsn_diff(
         case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
              else pg_catalog.pg_current_wal_lsn() end, s.restart_lsn), 0)::bigint end as held_bytes,
       coalesce(pg_catalog.age(s.catalog_xmin), 0)::bigint as xmin_age
  from pg_catalog.pg_replication_slots s
 where s.database = pg_catalog.current_database() and s.slot_name operator(pg_catalog.~) $1 order by 1)",
                     version_num >= 130000 ? "coalesce(s.wal_status, '')" : "''");
}

}  // namespace

WalHold load_wal_hold(pg::Control& source, const OwnSlots& own) {
  return pg::control(Side::source, "reading what slots hold", [&] {
    WalHold hold;
    hold.flush_lsn = catalog::current_flush_lsn(source);
    pqxx::nontransaction transaction(source);
    for (auto row : transaction.exec_params(hold_query(source.server_version()), pattern(own))) {
      hold.slots.push_back({row["slot_name"].as<std::string>(), row["wal_status"].as<std::string>(),
                            row["temporary"].as<bool>(), row["active"].as<bool>(), row["held_bytes"].as<std::int64_t>(),
                            row["xmin_age"].as<std::int64_t>()});
      hold.held_bytes = std::max(hold.held_bytes, hold.slots.back().held_bytes);
      hold.xmin_age = std::max(hold.xmin_age, hold.slots.back().xmin_age);
    }
    const auto limits = transaction.exec1(
        "select coalesce((select setting::bigint * 1048576 from pg_catalog.pg_settings"
        "  where name = 'max_slot_wal_keep_size' and setting::bigint >= 0), -1),"
        " pg_catalog.current_setting('autovacuum_freeze_max_age')::bigint");
    hold.server_limit_bytes = limits[0].as<std::int64_t>();
    hold.freeze_max_age = limits[1].as<std::int64_t>();
    return hold;
  });
}

}  // namespace pgbaton::source
