#include "catalog.hpp"

#include <algorithm>
#include <set>

#include "session.hpp"

namespace pgbaton::testing {
namespace {

// Every query yields two columns: the object, with its schema in front, and what is said of it. An extension's own
// objects are left out: its versions differ between majors. to_jsonb(x) ->> reads columns that not every major has.
constexpr const char* kObjects[] = {
    R"(select format('%I.%I', n.nspname, c.relname), 'relation ' || c.relkind::text || ' ' || c.relpersistence::text
  || ' identity ' || c.relreplident::text || ' row security ' || c.relrowsecurity || c.relforcerowsecurity || ' options '
  || coalesce(array_to_string(array(select unnest(c.reloptions) order by 1), ' '), '') || ' space ' || coalesce(t.spcname, '')
  || ' bound ' || coalesce(pg_get_expr(c.relpartbound, c.oid), '') || ' key '
  || coalesce(case when c.relkind = 'p' then pg_get_partkeydef(c.oid) end, '') || ' parents '
  || coalesce((select string_agg(inhparent::regclass::text, ' ' order by inhseqno) from pg_inherits where inhrelid = c.oid), '')
  || ' of ' || coalesce(nullif(c.reloftype, 0)::regtype::text, '') || ' populated ' || c.relispopulated
  from pg_class c join own_schemas n on n.oid = c.relnamespace left join pg_tablespace t on t.oid = c.reltablespace
 where c.relkind not in ('t', 'c'))",
    R"(select format('%I.%I', n.nspname, c.relname), 'column ' || quote_ident(a.attname) || ' '
  || format_type(a.atttypid, a.atttypmod) || ' not null ' || a.attnotnull || ' identity ' || a.attidentity::text
  || ' generated ' || a.attgenerated::text || ' default ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' storage '
  || a.attstorage::text || ' compression ' || coalesce(to_jsonb(a) ->> 'attcompression', '') || ' statistics '
  || coalesce(nullif(to_jsonb(a) ->> 'attstattarget', '-1'), '') || ' options ' || array_to_string(array(
  select o from unnest(a.attoptions) o where o !~ '^pg_attver=' order by 1), ' ')
  || ' collation ' || coalesce(nullif(a.attcollation, 0)::regcollation::text, '')
  from pg_attribute a join pg_class c on c.oid = a.attrelid join own_schemas n on n.oid = c.relnamespace
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where a.attnum > 0 and not a.attisdropped and c.relkind <> 't' and a.attname <> '_pgbaton_lsn')",
    R"(select format('%I.%I', n.nspname, c.relname), 'constraint ' || quote_ident(k.conname) || ' '
  || pg_get_constraintdef(k.oid) || ' validated ' || k.convalidated
  from pg_constraint k join pg_class c on c.oid = k.conrelid join own_schemas n on n.oid = c.relnamespace
 where k.contype <> 'n')",
    R"(select format('%I.%I', n.nspname, t.typname), 'type ' || t.typtype::text || ' ' || coalesce((select
  string_agg(e.enumlabel, ',' order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid), '') || ' base '
  || coalesce(nullif(t.typbasetype, 0)::regtype::text, '') || ' default ' || coalesce(t.typdefault, '') || ' checks '
  || coalesce((select string_agg(conname || pg_get_constraintdef(k.oid), ',' order by conname) from pg_constraint k
                where k.contypid = t.oid and k.contype <> 'n'), '')
  || ' range ' || coalesce((select rngsubtype::regtype::text from pg_range where rngtypid = t.oid), '')
  from pg_type t join own_schemas n on n.oid = t.typnamespace
 where not exists (select from pg_depend d
        where d.classid = 'pg_type'::regclass and d.objid in (t.oid, t.typelem) and d.deptype = 'e'))",
    R"(select format('%I.%I', n.nspname, c.relname), 'index ' || pg_get_indexdef(i.indexrelid) || ' valid ' || i.indisvalid
  || ' clustered ' || i.indisclustered || ' identity ' || i.indisreplident || ' of ' || coalesce((select
  inhparent::regclass::text from pg_inherits where inhrelid = i.indexrelid), '')
  from pg_index i join pg_class c on c.oid = i.indrelid join own_schemas n on n.oid = c.relnamespace
 where c.relkind <> 't')",
    R"(select format('%I.%I', n.nspname, c.relname), 'trigger ' || pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join own_schemas n on n.oid = c.relnamespace
 where not t.tgisinternal)",
    R"(select format('%I.%I', n.nspname, c.relname), 'rule ' || r.rulename || ' ' || r.ev_enabled::text || ' '
  || case when r.rulename = '_RETURN' then '' else pg_get_ruledef(r.oid) end
  from pg_rewrite r join pg_class c on c.oid = r.ev_class join own_schemas n on n.oid = c.relnamespace)",
    R"(select format('%I.%I', n.nspname, c.relname), 'policy ' || p.polname || ' ' || p.polcmd::text || ' '
  || coalesce(pg_get_expr(p.polqual, p.polrelid), '') || ' check ' || coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '')
  || ' to ' || (select string_agg(coalesce(r.rolname, 'public'), ',' order by 1) from unnest(p.polroles) x
                 left join pg_roles r on r.oid = x)
  from pg_policy p join pg_class c on c.oid = p.polrelid join own_schemas n on n.oid = c.relnamespace)",
    R"(select format('%I.%I', n.nspname, p.proname), 'function ' || p.prokind::text || ' '
  || pg_get_function_identity_arguments(p.oid) || ' ' || coalesce(pg_get_function_result(p.oid), '') || ' ' || p.prosrc
  || ' definer ' || p.prosecdef || ' ' || p.provolatile::text || ' set ' || coalesce(p.proconfig::text, '')
  from pg_proc p join own_schemas n on n.oid = p.pronamespace
 where not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype in ('i', 'e')))",
    R"(select format('%I.%I', n.nspname, c.relname), 'sequence ' || s.seqtypid::regtype || ' ' || concat_ws(' ', s.seqstart,
  s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle) || ' owner ' || coalesce((select string_agg(
  d.refobjid::regclass || '.' || d.refobjsubid::bool, ' ') from pg_depend d where d.classid = 'pg_class'::regclass
  and d.objid = c.oid and d.deptype in ('a', 'i') and d.refobjsubid > 0), '')
  from pg_sequence s join pg_class c on c.oid = s.seqrelid join own_schemas n on n.oid = c.relnamespace)",
    R"(select format('%I.', n.nspname), 'statistics ' || s.stxname || ' ' || s.stxkind::text || ' ' || s.stxrelid::regclass
  from pg_statistic_ext s join own_schemas n on n.oid = s.stxnamespace)",
    R"(select coalesce(nullif(i.schema, '') || '.', '') || i.identity, 'comment ' || d.description
  from pg_description d cross join lateral pg_identify_object(d.classoid, d.objoid, d.objsubid) i
 where d.objoid >= 16384 and i.type <> 'extension')",
    R"(select coalesce(quote_ident(n.nspname) || '.', ''), 'default rights ' || coalesce(acl.grantee::regrole::text, '') || acl.privilege_type
  from pg_default_acl d left join own_schemas n on n.oid = d.defaclnamespace cross join lateral aclexplode(d.defaclacl) acl)",
    R"(select 'event.', 'event trigger ' || evtname || ' ' || evtevent || evtenabled::text from pg_event_trigger)",
    R"(select 'schema ' || quote_ident(nspname), 'schema' from pg_namespace n where oid >= 16384)",
    R"(select 'extension ' || extname, 'in ' || extnamespace::regnamespace from pg_extension)",
    R"(select quote_ident(n.nspname) || '.', what || name from own_schemas n join (
  select oprnamespace ns, 'operator ' what, oprname name, 'pg_operator'::regclass class, oid from pg_operator union all
  select collnamespace, 'collation ', collname, 'pg_collation'::regclass, oid from pg_collation union all
  select connamespace, 'conversion ', conname, 'pg_conversion'::regclass, oid from pg_conversion union all
  select cfgnamespace, 'text search configuration ', cfgname, 'pg_ts_config'::regclass, oid from pg_ts_config union all
  select dictnamespace, 'text search dictionary ', dictname, 'pg_ts_dict'::regclass, oid from pg_ts_dict union all
  select opcnamespace, 'operator class ', opcname, 'pg_opclass'::regclass, oid from pg_opclass) x on x.ns = n.oid
 where not exists (select from pg_depend d where d.classid = x.class and d.objid = x.oid and d.deptype = 'e'))",
    R"(select 'cast ' || castsource::regtype || ' as ' || casttarget::regtype, castcontext::text || castmethod::text
  from pg_cast where oid >= 16384)",
    R"(select 'server ' || srvname, array(select unnest(srvoptions) order by 1)::text from pg_foreign_server)",
    R"(select 'user mapping ' || srvname, coalesce(usename, 'public') || array(select unnest(umoptions) order by 1)::text from pg_user_mappings)",
    R"(select 'foreign ' || ftrelid::regclass, array(select unnest(ftoptions) order by 1)::text from pg_foreign_table)",
    R"(select 'database settings', coalesce(r.rolname, 'all') || ' ' || c from pg_db_role_setting s
  cross join lateral unnest(s.setconfig) c left join pg_roles r on r.oid = s.setrole
 where s.setdatabase = (select oid from pg_database where datname = current_database()))",
    R"(select 'database comment', shobj_description(oid, 'pg_database') from pg_database where datname = current_database())",
};

constexpr const char* kRights[] = {
    R"(select format('%I.%I', n.nspname, c.relname), 'owner ' || pg_get_userbyid(c.relowner)
  from pg_class c join own_schemas n on n.oid = c.relnamespace where c.relkind not in ('t', 'c'))",
    R"(select format('%I.%I', n.nspname, c.relname), 'right ' || case x.grantee when 0 then 'public' else
  pg_get_userbyid(x.grantee) end || ' ' || x.privilege_type || x.is_grantable
  from pg_class c join own_schemas n on n.oid = c.relnamespace cross join lateral aclexplode(c.relacl) x
 where x.privilege_type <> 'MAINTAIN')",
    R"(select format('%I.%I', n.nspname, c.relname), 'right on ' || quote_ident(a.attname) || ' ' || case x.grantee when 0
  then 'public' else pg_get_userbyid(x.grantee) end || ' ' || x.privilege_type || x.is_grantable
  from pg_attribute a join pg_class c on c.oid = a.attrelid join own_schemas n on n.oid = c.relnamespace
  cross join lateral aclexplode(a.attacl) x)",
    R"(select format('%I.%I', n.nspname, p.proname), 'owner ' || pg_get_userbyid(p.proowner) || ' rights '
  || coalesce(p.proacl::text, '') from pg_proc p join own_schemas n on n.oid = p.pronamespace
 where not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype in ('i', 'e')))",
    R"(select format('%I.%I', n.nspname, t.typname), 'owner ' || pg_get_userbyid(t.typowner) || ' rights '
  || coalesce(t.typacl::text, '') from pg_type t join own_schemas n on n.oid = t.typnamespace
 where t.typname !~ 'multirange' and not exists (select from pg_depend d
        where d.classid = 'pg_type'::regclass and d.objid in (t.oid, t.typelem) and d.deptype = 'e'))",
    R"(select 'schema ' || nspname, 'owner ' || pg_get_userbyid(nspowner) || ' rights ' || coalesce(nspacl::text, '')
  from pg_namespace where oid >= 16384)",
    R"(select 'database rights', case x.grantee when 0 then 'public' else pg_get_userbyid(x.grantee) end || ' '
  || x.privilege_type || x.is_grantable from pg_database d
  cross join lateral aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) x where d.datname = current_database())",
};

// Before every query: of the system's own objects there are thousands.
const std::string kOwnSchemas =
    "with own_schemas as (select oid, nspname from pg_namespace where (oid >= 16384 or nspname = 'public') and nspname "
    "!~ '^pg_' and nspname <> 'pgbaton') ";

bool is_left_out(const std::string& object, const std::string& text, const CatalogOptions& options) {
  for (const char* schema : {"pg_", "information_schema.", "pgbaton.", "schema pgbaton", "schema pg_"})
    if (object.rfind(schema, 0) == 0) return true;
  // View columns and defaults are printed from trees that majors write differently; constraints, too, now and then.
  return !options.same_major && text.rfind("rule ", 0) == 0;
}

std::set<std::string> load(const std::string& conninfo, const CatalogOptions& options) {
  Session session(conninfo);
  session.exec("set search_path = ''; set quote_all_identifiers = off; set jit = off");
  std::set<std::string> lines;
  const auto add = [&](const char* query) {
    for (const auto& row : session.query(kOwnSchemas + query)) {
      const auto object = row[0].value_or(""), text = row[1].value_or("");
      if (!is_left_out(object, text, options)) lines.insert(object + ": " + text);
    }
  };
  for (const auto* query : kObjects) add(query);
  if (options.owners)
    for (const auto* query : kRights) add(query);
  return lines;
}

}  // namespace

std::vector<std::string> catalog_differences(const std::string& source_conninfo, const std::string& target_conninfo,
                                             const CatalogOptions& options) {
  const auto source = load(source_conninfo, options), target = load(target_conninfo, options);
  std::vector<std::string> result;
  for (const auto& line : source)
    if (!target.contains(line)) result.push_back("source: " + line);
  for (const auto& line : target)
    if (!source.contains(line)) result.push_back("target: " + line);
  return result;
}

}  // namespace pgbaton::testing
