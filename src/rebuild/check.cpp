#include <fmt/format.h>

#include <pgbaton/catalog/server.hpp>
#include <pgbaton/state/store.hpp>

#include "build.hpp"
#include "programs.hpp"
#include "registry.hpp"

namespace pgbaton::rebuild {

namespace {

constexpr std::size_t kLongestName = 63 - 15;  // "__g", the digits of an id, "_"

using Findings = std::vector<snapshot::Finding>;

void blocker(Findings& findings, std::string id, std::string object, std::string message, std::string remedy) {
  findings.push_back(
      {std::move(id), snapshot::Severity::blocker, std::move(object), std::move(message), std::move(remedy)});
}

struct Rights {
  std::string role;
  bool superuser = false, create_database = false, owns_live = false, may_signal = false, may_install = false;
  bool may_use_tablespace = false, may_set_replica_role = false;
};

Rights read_rights(pg::Control& connection, const std::string& live) {
  return pg::control(Side::target, "reading the role's rights", [&] {
    pqxx::nontransaction tx(connection);
    const auto row = tx.exec1(fmt::format(
        "select r.rolname, r.rolsuper, r.rolcreatedb, coalesce((select pg_has_role(datdba, 'USAGE') from "
        "pg_catalog.pg_database where datname = {0}), true), pg_has_role('pg_signal_backend', 'USAGE'), "
        "case when exists (select from pg_catalog.pg_namespace where nspname = 'pgbaton') then exists (select from "
        "pg_catalog.pg_namespace n where nspname = 'pgbaton' and (pg_has_role(nspowner, 'USAGE') or exists (select "
        "from "
        "pg_catalog.pg_class c where relnamespace = n.oid and relname = 'generation' and has_schema_privilege(n.oid, "
        "'USAGE') and has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE')))) "
        "else has_database_privilege(current_database(), 'CREATE') end, "
        "coalesce((select d.dattablespace = t.dattablespace or has_tablespace_privilege(d.dattablespace, 'CREATE') "
        "from pg_catalog.pg_database d, pg_catalog.pg_database t where d.datname = {0} and t.datname = 'template0'), "
        "true) "
        "from pg_catalog.pg_roles r where r.rolname = current_user",
        quote_literal(live)));
    return Rights{row[0].c_str(),    row[1].as<bool>(), row[2].as<bool>(), row[3].as<bool>(),
                  row[4].as<bool>(), row[5].as<bool>(), row[6].as<bool>()};
  });
}

bool exists(pg::Control& connection, const std::string& database) {
  return pg::control(Side::target, "looking for the live database", [&] {
    pqxx::nontransaction tx(connection);
    return !tx.exec("select from pg_catalog.pg_database where datname = " + quote_literal(database)).empty();
  });
}

void check_rights(const Options& options, const Rights& rights, const std::string& live, Findings& findings) {
  const auto& maintenance = options.place.maintenance_db;
  if (!rights.may_install)
    blocker(findings, "rebuild.registry", maintenance,
            fmt::format("role {} may not make schema pgbaton in it, where rebuild keeps its registry", rights.role),
            fmt::format("GRANT CREATE ON DATABASE {} TO {}, or name another database with --maintenance-db.",
                        quote_identifier(maintenance), quote_identifier(rights.role)));
  if (rights.superuser) return;
  const auto role = quote_identifier(rights.role);
  if (!rights.create_database)
    blocker(findings, "rebuild.createdb", rights.role, "the role may neither create nor rename databases",
            fmt::format("ALTER ROLE {} CREATEDB. Where that is not possible, `pgbaton clone --follow` needs one "
                        "database only.",
                        role));
  if (!rights.owns_live)
    blocker(findings, "rebuild.owner", live,
            fmt::format("role {} does not own the live database and so may not rename it", rights.role),
            fmt::format("ALTER DATABASE {} OWNER TO {}, or grant the owner's role to {}.", quote_identifier(live), role,
                        role));
  if (!rights.may_use_tablespace)
    blocker(findings, "rebuild.tablespace", live,
            fmt::format("role {} may make nothing in the tablespace of the live database", rights.role),
            fmt::format("GRANT CREATE ON TABLESPACE … TO {}; see \\l+ in psql.", role));
  if (!rights.may_set_replica_role && options.mode == Mode::follow)
    blocker(findings, "rebuild.replica_role", rights.role,
            "the role may not set session_replication_role: a generation that is streamed into would serve without "
            "foreign keys, triggers and rules",
            fmt::format("GRANT SET ON PARAMETER session_replication_role TO {}; (15 and newer), or --mode once, which "
                        "makes them before the swap.",
                        role));
  if (!rights.may_signal && options.readers == Readers::terminate)
    blocker(findings, "rebuild.signal", rights.role, "the role may not end the sessions of other roles at the swap",
            fmt::format("GRANT pg_signal_backend TO {}, or wait for them with --readers wait.", role));
}

void check_name(const Options& options, const std::string& live, Findings& findings) {
  if (live == options.place.maintenance_db)
    blocker(findings, "rebuild.maintenance_db", live, "the live database and --maintenance-db are the same",
            "Name another database in --target, or with --maintenance-db one that is not to be rebuilt.");
  if (live.size() > kLongestName)
    blocker(findings, "rebuild.name", live,
            fmt::format("the name is too long: generations are called {}__g<id>, with at most 63 bytes", live),
            fmt::format("Give the live database a name of at most {} bytes.", kLongestName));
}

// Only the replica of the name that is rebuilt is taken off the source with the generation that goes.
void check_other_replicas(const Options& options, const std::string& live, bool exists, Findings& findings) {
  if (!exists) return;
  auto connection = snapshot::open_read_only(endpoint_of(options.place, live));
  const auto& own = options.place.names.name;
  for (const auto& name : state::Store(*connection).replica_names())
    if (name != own && !name.starts_with(own + "__"))  // the copy of a resync is its own
      blocker(
          findings, "rebuild.other_replica", name,
          fmt::format("database {} is the target of this replica: it would end at the swap, and its slot stay on "
                      "the source",
                      live),
          fmt::format("End it first: pgbaton finish --name {0}, or pgbaton drop --name {0}. Or rebuild it under that "
                      "name.",
                      name));
}

}  // namespace

std::vector<snapshot::Finding> check_place(const Options& options) {
  Findings findings;
  std::string live = live_name(options.place);
  check_name(options, live, findings);
  auto connection = snapshot::open_read_only(endpoint_of(options.place, options.place.maintenance_db));
  auto rights = read_rights(*connection, live);
  rights.may_set_replica_role = catalog::may_set_replica_role(*connection, Side::target);
  check_rights(options, rights, live, findings);
  check_other_replicas(options, live, exists(*connection, live), findings);
  return findings;
}

std::vector<snapshot::Finding> check(const Options& options) {
  auto findings = check_place(options);
  for (auto& finding : check_programs(options)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<snapshot::Finding> check_both_sides(const Options& options) {
  const auto server = endpoint_of(options.place, options.place.maintenance_db);
  snapshot::CheckOptions both;
  both.clone = options.clone;
  both.clone.target = server;
  both.with_target = false;  // the live database need not exist
  const auto routes = snapshot::check_routes(both);
  if (snapshot::has_blocker(routes)) return routes;
  auto findings = check(options);
  findings.insert(findings.begin(), routes.begin(), routes.end());
  if (snapshot::has_blocker(findings)) return snapshot::run_check(both, findings);
  auto connection = snapshot::open_read_only(server);
  pg::control(Side::target, "reading the live database's owner", [&] {
    pqxx::nontransaction tx(*connection);
    const auto row = tx.exec1(
        fmt::format("select coalesce((select pg_get_userbyid(datdba) from pg_catalog.pg_database where datname = {0}), "
                    "current_user), exists (select from pg_catalog.pg_database where datname = {0})",
                    quote_literal(live_name(options.place))));
    both.new_database = {live_name(options.place), row[0].as<std::string>()};
    if (row[1].as<bool>()) both.clone.schema_options.settings = false;  // the live database's count
  });
  both.with_target = true;
  return snapshot::run_check(both, findings);
}

}  // namespace pgbaton::rebuild
