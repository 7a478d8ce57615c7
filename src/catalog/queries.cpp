// Catalog queries take no lock on user tables and wait for nobody, so that `check` and `status` stay usable while DDL
// holds a table. That is why the identity is read from pg_index instead of pg_get_replica_identity_index(), which opens
// the table; the rules are the server's own (RelationGetIndexList in src/backend/utils/cache/relcache.c).
#include "queries.hpp"

#include <fmt/format.h>

namespace pgbaton::catalog {
namespace {

// What is the user's: no system or temporary schemas, not ours, nothing that an extension owns.
constexpr std::string_view kUserRelation = R"(
      n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton')
  and n.nspname not like 'pg\_temp\_%' and n.nspname not like 'pg\_toast\_temp\_%'
  and c.relpersistence <> 't'
  and not exists (select from pg_depend d
                   where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.objsubid = 0 and d.deptype = 'e'))";

// From a type to the types that it is made of. `root` is where the walk began.
std::string walk_types(int version_num) {
  return fmt::format(
      R"(
walk as (
  select root, root as type_oid from roots
  union
  select w.root, inner_type.oid
    from walk w join pg_type t on t.oid = w.type_oid
    cross join lateral (
      select t.typbasetype where t.typtype = 'd'
      union all select t.typelem where t.typtype = 'b' and t.typelem <> 0 and t.typlen = -1
      union all select r.rngsubtype from pg_range r where r.rngtypid = t.oid{}
      union all select a.atttypid from pg_attribute a
                 where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ) as inner_type(oid)
))",
      version_num >= 140000 ? "\n      union all select r.rngtypid from pg_range r where r.rngmultitypid = t.oid" : "");
}

}  // namespace

// pg_relation_size() waits for whoever holds or wants ACCESS EXCLUSIVE; such a table is given the size that its last
// VACUUM or ANALYZE noted; ANALYZE of a partitioned table notes -1 (14 and newer).
std::string tables_query(int version_num) {
  return fmt::format(
      R"(
with recursive locked as materialized (
  select relation as oid from pg_locks
   where locktype = 'relation' and mode = 'AccessExclusiveLock'
     and database = (select oid from pg_database where datname = current_database())
), up as (
  select i.inhrelid as oid, i.inhparent as parent, i.inhparent as top
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
   where c.relispartition
  union all
  select up.oid, up.parent, i.inhparent
    from up join pg_class c on c.oid = up.top and c.relispartition join pg_inherits i on i.inhrelid = up.top
), top as (
  select up.oid, up.parent, up.top from up join pg_class c on c.oid = up.top and not c.relispartition
), sized as (
  select c.oid, greatest(c.relpages, 0)::bigint as pages, c.reltoastrelid,
         c.relkind <> 'r' or exists (select from locked l where l.oid in (c.oid, c.reltoastrelid)) as unmeasured
    from pg_class c where c.relkind in ('r', 'p')
)
select c.oid::bigint as oid, n.nspname as schema, c.relname as name, c.relkind as kind, c.relpersistence as persistence,
       c.relreplident as replica_identity, c.relnatts as attribute_count, coalesce(top.parent, 0)::bigint as parent_oid,
       coalesce(top.top, 0)::bigint as root_oid,
       coalesce((select string_agg(i.inhparent::oid::text || ':' || i.xmin::text, ',' order by i.inhseqno)
                   from pg_inherits i where i.inhrelid = c.oid), '') as parents, c.reloftype <> 0 as typed,
       c.relkind = 'r' and exists (select from pg_inherits i where i.inhparent = c.oid) as has_children,
       case when s.unmeasured then s.pages * current_setting('block_size')::bigint
            else coalesce(pg_relation_size(c.oid), 0)
                 + case when c.reltoastrelid = 0 then 0 else coalesce(pg_relation_size(c.reltoastrelid), 0) end
       end as bytes,
       case when s.unmeasured then s.pages
            else coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint end as heap_blocks,
       coalesce(pg_relation_filenode(c.oid), 0)::bigint as filenode, {} as estimated_rows
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join sized s on s.oid = c.oid
       left join top on top.oid = c.oid
 where c.relkind in ('r', 'p') and ($1::oid[] is null or c.oid = any($1::oid[])) and {}
 order by n.nspname collate "C", c.relname collate "C")",
      // Below 14 a table that was never analysed says 0 rows.
      version_num >= 140000 ? "c.reltuples::float8" : "case when c.relpages = 0 then -1 else c.reltuples::float8 end",
      kUserRelation);
}

// format_type(…, -1) prints bpchar and "bit" where NULL would print types with an implied length 1.
std::string columns_query(int version_num) {
  return fmt::format(R"(
with recursive own_text_cast as (
  select t.oid from pg_cast k join pg_type t on t.oid = k.castsource join pg_proc o on o.oid = t.typoutput
   where k.casttarget = 25 and k.oid >= 16384
     and (k.castmethod = 'f' or k.castmethod = 'b' and o.prosrc not in ('textout', 'citextout'))
  union
  select t.oid from own_text_cast c join pg_type t on t.typbasetype = c.oid
), own_cast_from_text as (
  select casttarget as oid from pg_cast where castsource = 25 and oid >= 16384 and castmethod = 'f'
  union
  select t.oid from own_cast_from_text c join pg_type t on t.typbasetype = c.oid
)
select a.attrelid::bigint as table_oid, a.attname as name, a.attnum::int as number, a.xmin::text as version,
       a.atttypid::bigint as type_oid,
       tn.nspname as type_schema, t.typname as type_name,
       format_type(a.atttypid, -1) as cast_type, format_type(a.atttypid, a.atttypmod) as full_type,
       t.oid in (select oid from own_text_cast) as has_own_text_cast,
       t.oid in (select oid from own_cast_from_text) as has_own_cast_from_text,
       t.typtype = 'b' and t.typelem <> 0 and t.typlen = -1 as is_array,
       coalesce(nullif(t.typbasetype, 0), t.oid) in (20, 21, 23) as is_integer,
       a.attnotnull{} as not_null,
       a.atthasdef and a.attgenerated = '' as has_default,
       a.attidentity as identity, a.attgenerated as generated, greatest(a.attlen, 0)::int as fixed_bytes
  from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
       join pg_type t on t.oid = a.atttypid join pg_namespace tn on tn.oid = t.typnamespace
 where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
   and ($1::oid[] is null or c.oid = any($1::oid[])) and {}
 order by a.attrelid, a.attnum)",
                     // From 18 on NOT NULL can be NOT VALID: rows with NULL may be there.
                     version_num >= 180000 ? R"(
         and not exists (select from pg_constraint k where k.conrelid = a.attrelid and k.contype = 'n'
                                and not k.convalidated and a.attnum = any(k.conkey)))"
                                           : "",
                     kUserRelation);
}

std::string unique_indexes_query() {
  return fmt::format(R"(
select i.indrelid::bigint as table_oid, i.indisprimary as is_primary, i.indisreplident as is_identity,
       i.indisexclusion as is_exclusion, i.indpred is not null as is_partial,
       array(select coalesce(a.attname, '') from unnest(i.indkey::int2[]) with ordinality k(attnum, at)
               left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum and k.attnum > 0
              where k.at <= i.indnkeyatts order by k.at)::text[] as columns
  from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
       join pg_class x on x.oid = i.indexrelid
 where c.relkind in ('r', 'p') and i.indisunique and i.indimmediate and i.indisvalid and i.indisready and i.indislive
   and ($1::oid[] is null or c.oid = any($1::oid[])) and {}
 order by i.indrelid, i.indisprimary desc, x.relname collate "C")",
                     kUserRelation);
}

std::string deferrable_keys_query() {
  return fmt::format(R"(
select i.indrelid::bigint as table_oid
  from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p') and i.indisprimary and not i.indimmediate
   and ($1::oid[] is null or c.oid = any($1::oid[])) and {})",
                     kUserRelation);
}

// An operator called `=` is not enough: for box, circle and path it compares sizes. varchar has no class of its own but
// is text to the last bit (pg_cast without function).
std::string types_without_equality_query(int version_num) {
  return fmt::format(R"(
with recursive roots as (select unnest($1::oid[]) as root), {}
select distinct w.root::bigint as type_oid
  from walk w join pg_type t on t.oid = w.type_oid
 where t.typtype = 'b' and not (t.typelem <> 0 and t.typlen = -1)
   and not exists (
     select from pg_opclass o join pg_am m on m.oid = o.opcmethod
      where o.opcdefault and m.amname in ('btree', 'hash')
        and (o.opcintype = t.oid
             or exists (select from pg_cast k where k.castsource = t.oid and k.casttarget = o.opcintype
                                               and k.castmethod = 'b' and k.castcontext = 'i'))))",
                     walk_types(version_num));
}

std::string row_types_in_use_query(int version_num) {
  return fmt::format(R"(
with recursive roots as (
  select distinct a.atttypid as root
    from pg_attribute a join pg_class c on c.oid = a.attrelid
   where c.relkind in ('r', 'p', 'm', 'f', 'i') and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384
), {}
select distinct c.oid::bigint as table_oid
  from walk w join pg_type t on t.oid = w.type_oid and t.typtype = 'c' join pg_class c on c.oid = t.typrelid
 where c.relkind in ('r', 'p'))",
                     walk_types(version_num));
}

// The rows of tables are no types of their own. From 18 on NOT NULL of a domain is a constraint, too.
std::string types_query(int version_num) {
  return fmt::format(R"(
with recursive roots as (
  select distinct a.atttypid as root
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384 and {}
), {}
select w.root::bigint as root, n.nspname as schema, t.typname as name, t.typtype as kind, t.typnotnull as not_null,
       case t.typtype when 'd' then format_type(t.typbasetype, t.typtypmod)
            when 'r' then (select format_type(r.rngsubtype, -1) from pg_range r where r.rngtypid = t.oid)
            else '' end
         || coalesce((select ' COLLATE ' || quote_ident(cn.nspname) || '.' || quote_ident(co.collname)
                        from pg_collation co join pg_namespace cn on cn.oid = co.collnamespace
                       where co.oid = case t.typtype when 'd' then t.typcollation
                                           when 'r' then (select r.rngcollation from pg_range r where r.rngtypid = t.oid)
                                      end and co.collname <> 'default'), '') as base,
       array(select e.enumlabel from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder)::text[] as labels,
       array(select a.attname from pg_attribute a
              where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
              order by a.attnum)::text[] as attribute_names,
       array(select format_type(a.atttypid, a.atttypmod)
                    || coalesce(' COLLATE ' || quote_ident(cn.nspname) || '.' || quote_ident(co.collname), '')
               from pg_attribute a join pg_type ty on ty.oid = a.atttypid
                    left join pg_collation co on co.oid = a.attcollation and a.attcollation <> ty.typcollation
                    left join pg_namespace cn on cn.oid = co.collnamespace
              where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
              order by a.attnum)::text[] as attribute_types,
       array(select k.conname from pg_constraint k where k.contypid = t.oid and k.contype = 'c'
              order by k.conname)::text[] as constraint_names,
       array(select pg_get_constraintdef(k.oid) from pg_constraint k where k.contypid = t.oid and k.contype = 'c'
              order by k.conname)::text[] as constraint_texts
  from walk w join pg_type t on t.oid = w.type_oid join pg_namespace n on n.oid = t.typnamespace
 where t.oid >= 16384 and (t.typtype in ('e', 'd', 'r')
        or t.typtype = 'c' and exists (select from pg_class c where c.oid = t.typrelid and c.relkind = 'c')))",
                     kUserRelation, walk_types(version_num));
}

std::string collations_query() {
  return fmt::format(R"(
select a.attrelid::bigint as table_oid, a.attname as name,
       quote_ident(cn.nspname) || '.' || quote_ident(co.collname) as collation
  from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
       join pg_type t on t.oid = a.atttypid and t.typcollation <> a.attcollation
       join pg_collation co on co.oid = a.attcollation join pg_namespace cn on cn.oid = co.collnamespace
 where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped and {})",
                     kUserRelation);
}

std::string sequences_query() {
  return fmt::format(R"(
select c.oid::bigint as oid, n.nspname as schema, c.relname as name, s.seqincrement as increment, s.seqmin as minimum,
       s.seqmax as maximum, s.seqcycle as cycles, has_table_privilege(c.oid, 'SELECT') as readable,
       has_sequence_privilege(c.oid, 'UPDATE') as settable
  from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
 where {}
 order by n.nspname collate "C", c.relname collate "C")",
                     kUserRelation);
}

}  // namespace pgbaton::catalog
