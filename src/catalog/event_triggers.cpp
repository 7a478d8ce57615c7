#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/event_triggers.hpp>
#include <pgbaton/catalog/server.hpp>

namespace pgbaton::catalog {

namespace {

constexpr const char* kUnsilenced = R"(
select pg_catalog.quote_ident(e.evtname), e.evtenabled in ('A', 'R')
  from pg_catalog.pg_event_trigger e
 where e.evtevent in ('ddl_command_start', 'ddl_command_end', 'sql_drop')
   and (e.evtenabled in ('A', 'R') or (e.evtenabled = 'O' and not $1))
   and (e.evttags is null
        or e.evttags && array['CREATE SCHEMA', 'DROP SCHEMA', 'CREATE FUNCTION', 'DROP FUNCTION', 'CREATE TRIGGER',
                              'DROP TRIGGER', 'ALTER TABLE', 'ALTER FOREIGN TABLE', 'CREATE TABLE', 'DROP TABLE',
                              'CREATE INDEX', 'DROP INDEX', 'COMMENT', 'REVOKE', 'CREATE PUBLICATION',
                              'DROP PUBLICATION'])
   and not exists (select from pg_catalog.pg_depend d
                    where d.classid = 'pg_catalog.pg_event_trigger'::regclass and d.objid = e.oid and d.deptype = 'e')
 order by 1)";

}  // namespace

EventTriggersSilenced::EventTriggersSilenced(pg::Control& connection, Side side) : connection_(connection) {
  if (!may_set_replica_role(connection, side)) return;
  pg::control(side, "setting session_replication_role", [&] {
    pqxx::nontransaction tx(connection);
    const auto before = tx.exec1("show session_replication_role")[0].as<std::string>();
    tx.exec0("set session_replication_role = replica");
    before_ = before;
  });
}

EventTriggersSilenced::~EventTriggersSilenced() {
  if (before_.empty()) return;
  try {
    pqxx::nontransaction(connection_).exec0("set session_replication_role = " + before_);
  } catch (const std::exception& error) {
    log::debug("session_replication_role was not put back: {}", error.what());  // the session is gone
  }
}

std::vector<EventTrigger> load_unsilenced(pg::Control& connection, Side side) {
  const bool may = may_set_replica_role(connection, side);
  return pg::control(side, "looking for event triggers", [&] {
    pqxx::nontransaction tx(connection);
    std::vector<EventTrigger> found;
    for (auto row : tx.exec_params(kUnsilenced, may)) found.push_back({row[0].as<std::string>(), row[1].as<bool>()});
    return found;
  });
}

}  // namespace pgbaton::catalog
