// What the schema needs that pg_dump does not bring along: roles and the right to hand objects to them, extensions and
// their versions, tablespaces, settings of the database.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/member.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

std::set<std::string> texts(pg::Control& connection, const std::string& sql) {
  pqxx::nontransaction tx(connection);
  std::set<std::string> result;
  for (auto row : tx.exec(sql)) result.insert(row[0].as<std::string>());
  return result;
}

std::vector<std::string> missing(const std::set<std::string>& wanted, const std::set<std::string>& present) {
  std::vector<std::string> result;
  std::ranges::set_difference(wanted, present, std::back_inserter(result));
  return result;
}

// Owners of what is dumped. Objects of the bootstrap superuser have no row in pg_shdepend, so the owners of relations
// and functions are asked, too. What belongs to an extension comes with it.
constexpr std::string_view kOwners = R"(
select pg_get_userbyid(d.refobjid) as rolname from pg_shdepend d
 where d.refclassid = 'pg_authid'::regclass and d.deptype = 'o'
   and d.dbid = (select oid from pg_database where datname = current_database())
   and d.classid not in ('pg_extension'::regclass, 'pg_publication'::regclass, 'pg_subscription'::regclass)
   and not (d.classid = 'pg_namespace'::regclass and d.objid = 'pg_catalog'::regnamespace)
   and not exists (select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e')
   and not (d.classid = 'pg_namespace'::regclass
            and d.objid in (select oid from pg_namespace where nspname in ('public', 'pgbaton') or nspname like 'pg\_%'))
union
select pg_get_userbyid(c.relowner) from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton')
   and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f') and c.relpersistence <> 't'
   and not exists (select from pg_depend e
                    where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')
union
select pg_get_userbyid(p.proowner) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname not in ('pg_catalog', 'information_schema', 'pgbaton')
   and not exists (select from pg_depend e
                    where e.classid = 'pg_proc'::regclass and e.objid = p.oid and e.deptype = 'e'))";

// Of grants and policies.
constexpr std::string_view kGrantees = R"(
select r.rolname from pg_shdepend d join pg_roles r on r.oid = d.refobjid
 where d.refclassid = 'pg_authid'::regclass and d.deptype <> 'o'
   and d.dbid = (select oid from pg_database where datname = current_database())
   and not exists (select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e'))";

// ALTER DEFAULT PRIVILEGES FOR ROLE: carried with the privileges, and only a member of the role may repeat it.
constexpr std::string_view kWithDefaults = "select distinct pg_get_userbyid(defaclrole) from pg_default_acl";

// Whoever is to own a table needs CREATE on its schema when it is given away, before any GRANT is restored. In a schema
// that the clone makes nobody but its owner has that.
constexpr std::string_view kOwnersBySchema = R"(
select distinct n.nspname, r.rolname, n.nspowner = r.oid as owns_schema
  from (select relnamespace as schema_oid, relowner as owner from pg_class
         where relkind in ('r', 'p', 'v', 'm', 'S', 'f') and relpersistence <> 't'
        union select pronamespace, proowner from pg_proc) o
  join pg_namespace n on n.oid = o.schema_oid join pg_roles r on r.oid = o.owner
 where n.nspname not in ('information_schema', 'pgbaton') and n.nspname !~ '^pg_' and not r.rolsuper
 order by 1, 2)";

// GRANTs on the database, and roles with settings in it.
constexpr std::string_view kOfDatabase = R"(
select pg_get_userbyid(x.grantee) from pg_database d cross join lateral aclexplode(d.datacl) x
 where d.datname = current_database() and x.grantee not in (0, d.datdba))";
constexpr std::string_view kWithSettings = R"(
select r.rolname from pg_db_role_setting s join pg_roles r on r.oid = s.setrole
 where s.setdatabase = (select oid from pg_database where datname = current_database()))";

pqxx::result may_create_in_schema(const CheckOptions& options, CheckSide& target, const std::string& schema,
                                  const std::string& owner) {
  pqxx::nontransaction tx(*target.connection);
  if (!options.new_database)
    return tx.exec_params(
        "select has_schema_privilege(r.oid, n.oid, 'CREATE') from pg_namespace n, pg_roles r where n.nspname = $1 and "
        "r.rolname = $2",
        schema, owner);
  // As template0 has it: everybody may create in public before 15, and then pg_database_owner.
  return tx.exec_params(
      "select $4 < 15 or pg_has_role(r.oid, d.oid, 'USAGE') from pg_roles r, pg_roles d where r.rolname = $2 and "
      "d.rolname = $3 and $1 = 'public'",
      schema, owner, options.new_database->owner, target.server.major());
}

void check_owners_schemas(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  pqxx::nontransaction from(*source.connection);
  for (auto row : from.exec(std::string(kOwnersBySchema))) {
    const auto schema = row[0].as<std::string>(), owner = row[1].as<std::string>();
    const auto there = may_create_in_schema(options, target, schema, owner);
    // A role that is missing is a finding of its own; public is always there.
    const bool exists = !there.empty() || schema == "public";
    if (exists ? there.empty() || there[0][0].as<bool>() : row[2].as<bool>()) continue;
    const auto role = quote_identifier(owner), name = quote_identifier(schema);
    findings.blocker(
        "target.owner_schema", role,
        fmt::format("it owns objects in schema {} on the source, and on the target it may not create there", name),
        options.new_database ? schema == "public"
                                   ? fmt::format("GRANT {} TO {}; on the target, whose schema public belongs to "
                                                 "the owner of the database since 15; or use --no-owner.",
                                                 quote_identifier(options.new_database->owner), role)
                                   : "A new database cannot be prepared for that: use --no-owner."
                             : fmt::format("{}GRANT CREATE ON SCHEMA {} TO {}; on the target, or use --no-owner.",
                                           exists ? "" : fmt::format("CREATE SCHEMA {}; ", name), name, role));
  }
}

// Without owners the grantees still count, and without privileges the owners: with both off only settings name roles.
void check_roles(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  const auto& schema = options.clone.schema_options;
  if (!schema.owners && !schema.privileges && !schema.settings) return;
  const auto owners = texts(*source.connection, std::string(kOwners));
  std::set<std::string> used;
  if (schema.owners || schema.privileges) {
    used = owners;
    used.merge(texts(*source.connection, std::string(kGrantees)));
  }
  if (options.clone.filter.empty()) {
    if (schema.privileges) used.merge(texts(*source.connection, std::string(kOfDatabase)));
    if (schema.settings) used.merge(texts(*source.connection, std::string(kWithSettings)));
  }
  for (const auto& role : missing(used, texts(*target.connection, "select rolname from pg_roles")))
    findings.blocker("target.role_missing", quote_identifier(role),
                     "the role owns objects or has rights on the source and does not exist on the target",
                     fmt::format("CREATE ROLE {}; on the target, or use --no-owner --no-privileges --no-settings.",
                                 quote_identifier(role)));
  if (target.server.superuser) return;
  std::set<std::string> members;  // that the target's role must be a member of
  if (schema.owners) members = owners;
  if (schema.privileges) members.merge(texts(*source.connection, std::string(kWithDefaults)));
  if (schema.owners) check_owners_schemas(options, source, target, findings);
  pqxx::nontransaction tx(*target.connection);
  auto rows = tx.exec_params(fmt::format("select rolname, rolsuper from pg_roles where rolname = any($1::text[]) and "
                                         "not pg_has_role(oid, '{}') order by 1",
                                         target.server.major() >= 16 ? "SET" : "MEMBER"),
                             text_array({members.begin(), members.end()}));
  for (auto row : rows) {
    const auto role = quote_identifier(row[0].as<std::string>());
    findings.blocker(
        "target.role_membership", role,
        fmt::format("it owns objects or has default privileges on the source, and {} may not give it objects on the "
                    "target",
                    quote_identifier(target.server.user)),
        row[1].as<bool>()
            ? "Give what it owns to another role on the source, or use --no-owner, and --no-privileges for default "
              "privileges: a member of a superuser's role is one."
            : fmt::format("GRANT {} TO {}; on the target, or use --no-owner, and --no-privileges for default "
                          "privileges.",
                          role, quote_identifier(target.server.user)));
  }
}

struct Available {
  std::string default_version, installed_version;
  bool needs_superuser = false;
  std::set<std::string> versions;
};

std::map<std::string, Available> load_available(pg::Control& target, const std::vector<std::string>& names) {
  pqxx::nontransaction tx(target);
  std::map<std::string, Available> all;
  auto rows = tx.exec_params(
      "select e.name, coalesce(e.default_version, ''), coalesce(e.installed_version, ''), v.version, v.superuser and "
      "not "
      "coalesce((to_jsonb(v) ->> 'trusted')::bool, false) and v.version = e.default_version "
      "from pg_available_extensions e join pg_available_extension_versions v on v.name = e.name "
      "where e.name = any($1::text[])",
      text_array(names));
  for (auto row : rows) {
    auto& extension = all[row[0].as<std::string>()];
    extension.default_version = row[1].as<std::string>();
    extension.installed_version = row[2].as<std::string>();
    extension.versions.insert(row[3].as<std::string>());
    extension.needs_superuser = extension.needs_superuser || (!row[4].is_null() && row[4].as<bool>());
  }
  return all;
}

void check_extension(const std::string& name, const std::string& version, const Available& available,
                     const CheckSide& target, Findings& findings) {
  const auto quoted = quote_identifier(name);
  if (available.needs_superuser && available.installed_version.empty() && !target.server.superuser)
    findings.warning("target.extension_right", quoted, "installing it on the target takes a superuser",
                     fmt::format("CREATE EXTENSION {}; on the target, by a superuser.", quoted));
  const bool installed = !available.installed_version.empty();
  const auto& found = installed ? available.installed_version : available.default_version;
  if (found == version) return;
  const auto remedy =
      installed ? fmt::format("ALTER EXTENSION {} UPDATE TO {}; on the older side.", quoted, quote_literal(found))
      : available.versions.contains(version)
          ? fmt::format("CREATE EXTENSION {} VERSION {}; on the target, before the clone.", quoted,
                        quote_literal(version))
          : fmt::format("ALTER EXTENSION {} UPDATE; on the source.", quoted);
  findings.warning(
      "target.extension_version", quoted,
      fmt::format("the source has version {}, the target {} {}: objects of the other version may be missing", version,
                  installed ? "has" : "installs", found),
      remedy);
}

void check_extensions(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  std::map<std::string, std::string> used;
  std::vector<std::string> names;
  pqxx::nontransaction tx(*source.connection);
  for (auto row : tx.exec("select extname, extversion from pg_extension order by 1")) {
    names.push_back(row[0].as<std::string>());
    used[names.back()] = row[1].as<std::string>();
  }
  auto available = load_available(*target.connection, names);
  if (options.new_database)
    for (auto& [name, extension] : available) extension.installed_version.clear();
  for (const auto& [name, version] : used) {
    if (const auto found = available.find(name); found != available.end())
      check_extension(name, version, found->second, target, findings);
    else
      findings.blocker("target.extension_missing", quote_identifier(name),
                       "the extension is used on the source and cannot be installed on the target",
                       fmt::format("Install its package on the target's machine; or DROP EXTENSION {}; on the source.",
                                   quote_identifier(name)));
  }
}

void check_tablespaces(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                       Findings& findings) {
  if (!options.clone.schema_options.tablespaces) return;
  pqxx::nontransaction tx(*source.connection);
  std::set<std::string> used;
  for (auto row :
       tx.exec_params("select distinct t.spcname from pg_tablespace t join pg_class c on c.reltablespace = t.oid "
                      "left join pg_index x on x.indexrelid = c.oid "
                      "where c.oid = any($1::oid[]) or x.indrelid = any($1::oid[])",
                      oid_array(oids_of(plan))))
    used.insert(row[0].as<std::string>());
  for (const auto& name : missing(used, texts(*target.connection, "select spcname from pg_tablespace")))
    findings.blocker(
        "target.tablespace_missing", quote_identifier(name),
        "tables or indexes of the source lie in it, and the target has none of this name",
        fmt::format("CREATE TABLESPACE {} LOCATION '…'; on the target, or move them on the source: ALTER TABLE "
                    "ALL IN TABLESPACE {} SET TABLESPACE pg_default; or use --no-tablespaces.",
                    quote_identifier(name), quote_identifier(name)));
}

void check_foreign_servers(CheckSide& source, CheckSide& target, Findings& findings) {
  const auto wrappers = texts(*source.connection,
                              "select w.fdwname from pg_foreign_server s join pg_foreign_data_wrapper w on w.oid = "
                              "s.srvfdw where not exists (select from pg_depend d where d.classid = "
                              "'pg_foreign_server'::regclass and d.objid = s.oid and d.deptype = 'e')");
  pqxx::nontransaction tx(*target.connection);
  for (auto row : tx.exec_params("select fdwname from pg_foreign_data_wrapper where fdwname = any($1::text[]) and not "
                                 "has_foreign_data_wrapper_privilege(oid, 'USAGE') order by 1",
                                 text_array({wrappers.begin(), wrappers.end()})))
    findings.blocker("target.wrapper_right", quote_identifier(row[0].as<std::string>()),
                     "the role may not create foreign servers of this foreign-data wrapper on the target",
                     fmt::format("GRANT USAGE ON FOREIGN DATA WRAPPER {} TO {}; on the target.",
                                 quote_identifier(row[0].as<std::string>()), quote_identifier(target.server.user)));
}

void check_event_triggers(CheckSide& source, CheckSide& target, Findings& findings) {
  if (target.server.superuser) return;
  for (const auto& name : texts(*source.connection,
                                "select quote_ident(evtname) from pg_event_trigger t where not exists "
                                "(select from pg_depend d where d.classid = "
                                "'pg_event_trigger'::regclass and d.objid = t.oid and d.deptype = "
                                "'e')"))
    findings.warning("target.event_trigger", name, "making an event trigger takes a superuser: it is left out",
                     "Make it on the target by a superuser after `finish`.");
}

void check_schema_rights(CheckSide& target, const TablePlan& plan, Findings& findings) {
  std::set<std::string> schemas;
  for (const auto& job : plan.jobs) schemas.insert(job.table.name.schema);
  pqxx::nontransaction tx(*target.connection);
  for (auto row : tx.exec_params("select nspname from pg_namespace where nspname = any($1::text[]) "
                                 "and not has_schema_privilege(oid, 'CREATE') order by 1",
                                 text_array({schemas.begin(), schemas.end()})))
    findings.blocker("target.schema_right", quote_identifier(row[0].as<std::string>()),
                     "the role may not create tables in this schema of the target",
                     fmt::format("GRANT CREATE ON SCHEMA {} TO {}; on the target.",
                                 quote_identifier(row[0].as<std::string>()), quote_identifier(target.server.user)));
}

// ALTER DATABASE … SET, also for one role, is part of no dump of a schema; the clone carries it by itself.
void check_database_settings(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  std::vector<std::string> set;
  {
    pqxx::nontransaction tx(*source.connection);
    for (auto row :
         tx.exec("select coalesce(r.rolname || ': ', '') || c from pg_db_role_setting s cross join lateral "
                 "unnest(s.setconfig) "
                 "c left join pg_roles r on r.oid = s.setrole where s.setdatabase = (select oid from pg_database where "
                 "datname = current_database()) order by 1"))
      set.push_back(row[0].as<std::string>());
  }
  if (set.empty()) return;
  if (!options.clone.schema_options.settings || !options.clone.filter.empty())
    return findings.note("source.database_settings", first_few(set),
                         "set for the database on the source; not copied: set it on the target, too, if it is wanted "
                         "there");
  pqxx::nontransaction tx(*target.connection);
  const bool owns = tx.exec1(
                          "select pg_has_role(datdba, 'USAGE') from pg_database where datname = "
                          "current_database()")[0]
                        .as<bool>();
  if (owns)
    return findings.note("source.database_settings", first_few(set), "set for the database on the source; copied, too");
  const auto user = quote_identifier(target.server.user);
  findings.warning("source.database_settings", first_few(set),
                   fmt::format("set for the database on the source; {} does not own the target database and cannot set "
                               "it there",
                               user),
                   fmt::format("ALTER DATABASE {} OWNER TO {}; on the target, or use --no-settings.",
                               quote_identifier(target.server.database), user));
}

}  // namespace

void check_members(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings) {
  const auto& filter = options.clone.filter;
  if (!filter.include_tables.empty() || !filter.include_schemas.empty()) return;  // only what was asked for
  auto* there = options.with_target && !options.new_database ? target.connection.get() : nullptr;
  for (auto& one : catalog::load_left_members(*source.connection, there))
    findings.warning("source.extension_data", one.member.name.quoted(), std::move(one.message), std::move(one.remedy));
}

void check_needs(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                 Findings& findings) {
  check_roles(options, source, target, findings);
  check_extensions(options, source, target, findings);
  check_tablespaces(options, source, target, plan, findings);
  check_foreign_servers(source, target, findings);
  check_event_triggers(source, target, findings);
  if (options.new_database) return;  // it owns what the new database has
  check_schema_rights(target, plan, findings);
  check_database_settings(options, source, target, findings);
}

}  // namespace pgbaton::snapshot
