-- A text that differs when a table or column of the application was made, dropped or altered (not when it was truncated).
-- Or a large object was.
select (select count(*) from pg_catalog.pg_largeobject_metadata) || coalesce(pg_catalog.md5(string_agg(format('%s %s.%s %s%s %s', c.oid, n.nspname, c.relname, c.relkind,
                                                 c.relpersistence, a.columns), ',' order by c.oid)), '')
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  cross join lateral (select string_agg(format('%s %s %s', t.attnum, t.xmin, t.attname), ',' order by t.attnum) as columns
                        from pg_catalog.pg_attribute t where t.attrelid = c.oid and t.attnum > 0) a
 where c.relkind in ('r', 'p', 'S') and c.relpersistence <> 't'
   and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton', 'pgbaton_fence')
   and n.nspname !~ '^pg_(toast_)?temp_'
