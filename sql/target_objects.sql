-- Objects of post-data by the names that make them unique: what a restore after a crash need not do again.
select '1259' as class_oid, n.nspname as schema_name, '' as table_name, c.relname as object_name
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('i', 'I', 'v', 'm') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
union all
select x.class_oid, n.nspname, c.relname, x.object_name
  from (select '2606' as class_oid, conrelid as table_oid, conname as object_name from pg_catalog.pg_constraint where conrelid <> 0
        union all
        select '2620', tgrelid, tgname from pg_catalog.pg_trigger where not tgisinternal
        union all
        select '2618', ev_class, rulename from pg_catalog.pg_rewrite where rulename <> '_RETURN'
        union all
        select '3256', polrelid, polname from pg_catalog.pg_policy) x
  join pg_catalog.pg_class c on c.oid = x.table_oid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
union all
select '3381', n.nspname, '', s.stxname
  from pg_catalog.pg_statistic_ext s join pg_catalog.pg_namespace n on n.oid = s.stxnamespace
union all
select '3466', '-', '', evtname from pg_catalog.pg_event_trigger
