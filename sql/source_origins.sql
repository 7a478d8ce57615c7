-- The columns of table $1 on the source against the recorded shape $2 (json, catalog::shape_json). One row per column
-- that is there now or was recorded: number, name (null: dropped), recorded_name (null: came later), type, collation
-- (null: the type's own), default_expression, not_null, identity, generated, old_known, old_value (literal), schema and
-- table where the column is defined (a partition or child has it from an ancestor).
with recursive recorded as (
  select key::int as number, value as name from json_each_text($2::json -> 'columns')
), up as (
  select $1::oid as relid, a.attname, a.attinhcount, 0 as depth
    from pg_catalog.pg_attribute a where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
  union all
  select i.inhparent, up.attname, a.attinhcount, up.depth + 1
    from up join pg_catalog.pg_inherits i on i.inhrelid = up.relid
    join pg_catalog.pg_attribute a on a.attrelid = i.inhparent and a.attname = up.attname and not a.attisdropped
   where up.attinhcount > 0
), home as (
  select distinct on (up.attname) up.attname, up.relid from up order by up.attname, up.depth desc, up.relid
), present as (
  select a.attnum::int as number, a.attname::text as name, pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
         case when a.attcollation <> 0 and a.attcollation <> t.typcollation
              then pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname) end as collation,
         case when a.attgenerated = '' then pg_catalog.pg_get_expr(d.adbin, d.adrelid) end as default_expression,
         a.attnotnull as not_null, a.attidentity as identity, a.attgenerated as generated,
         case when a.atthasmissing then t.typdelim = ','
              else pg_catalog.pg_relation_filenode(a.attrelid)::text = $2::json ->> 'filenode'
                   or c.relkind = 'p' end as old_known,
         case when a.atthasmissing and t.typdelim = ','
              then pg_catalog.quote_literal((a.attmissingval::text::text[])[1])
                   || '::' || pg_catalog.format_type(a.atttypid, a.atttypmod)
              else 'NULL' end as old_value,
         hn.nspname::text as home_schema, hc.relname::text as home_table
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_class c on c.oid = a.attrelid
    join pg_catalog.pg_type t on t.oid = a.atttypid
    join home h on h.attname = a.attname
    join pg_catalog.pg_class hc on hc.oid = h.relid join pg_catalog.pg_namespace hn on hn.oid = hc.relnamespace
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    left join pg_catalog.pg_collation co on co.oid = a.attcollation
    left join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
   where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped and a.attname <> '_pgbaton_lsn'
)
select coalesce(p.number, r.number) as number, p.name, r.name as recorded_name, p.type, p.collation,
       p.default_expression, p.not_null, p.identity, p.generated, p.old_known, p.old_value, p.home_schema, p.home_table
  from present p full join recorded r on r.number = p.number
 order by 1
