-- What the entries of a schema archive hang on, read in the snapshot that pg_dump reads too.
-- $1, $2: schemas and names of the excluded tables (text[]).
-- One row per object: class_oid, oid, the table it is on, its own name, the table that a foreign key refers to, whether a
-- materialized view is populated, and whether the object hangs on an excluded table (views over views included).
with recursive excluded as (
  select c.oid
    from unnest($1::text[], $2::text[]) as x(schema_name, table_name)
    join pg_catalog.pg_namespace n on n.nspname = x.schema_name
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = x.table_name
), hanging(class_oid, oid) as (
  select 1259::oid, oid from excluded
  union
  select x.class_oid, x.oid
    from hanging h
    join pg_catalog.pg_depend d on d.refclassid = h.class_oid and d.refobjid = h.oid and d.deptype in ('n', 'a', 'i')
   cross join lateral (
      select d.classid, d.objid
      union all
      select 1259::oid, r.ev_class
        from pg_catalog.pg_rewrite r
        join pg_catalog.pg_class v on v.oid = r.ev_class and v.relkind in ('v', 'm')
       where d.classid = 2618 and r.oid = d.objid) as x(class_oid, oid)
   -- A table that uses the row type of an excluded one is not dropped in silence: restoring it fails by name.
   where not (x.class_oid = 1259 and exists (
           select from pg_catalog.pg_class c where c.oid = x.oid and c.relkind in ('r', 'p', 'f', 'S')))
), objects(class_oid, oid, table_oid, object_name, referenced_oid) as (
  select 1259::oid, oid, oid, relname, 0::oid from pg_catalog.pg_class where relkind not in ('i', 'I', 't')
  union all
  select 1259, i.indexrelid, i.indrelid, c.relname, 0
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
  union all
  select 2606, oid, conrelid, conname, confrelid from pg_catalog.pg_constraint where conrelid <> 0
  union all
  select 2620, oid, tgrelid, tgname, 0 from pg_catalog.pg_trigger
  union all
  select 2618, oid, ev_class, rulename, 0 from pg_catalog.pg_rewrite
  union all
  select 3256, oid, polrelid, polname, 0 from pg_catalog.pg_policy
  union all
  select 3381, oid, stxrelid, stxname, 0 from pg_catalog.pg_statistic_ext
)
select coalesce(o.class_oid, h.class_oid) as class_oid, coalesce(o.oid, h.oid) as oid,
       n.nspname as schema_name, c.relname as table_name, c.relkind as table_kind, o.object_name,
       rn.nspname as referenced_schema, rc.relname as referenced_name,
       coalesce(c.relkind = 'm' and c.relispopulated, false) as populated,
       h.oid is not null as left_out
  from (select * from objects where oid >= 16384) o
  left join pg_catalog.pg_class c on c.oid = o.table_oid
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_class rc on rc.oid = o.referenced_oid
  left join pg_catalog.pg_namespace rn on rn.oid = rc.relnamespace
  full join hanging h on h.class_oid = o.class_oid and h.oid = o.oid
