-- The least that the source's side needs. Once, by an administrator, in the database that is to be copied:
--
--   psql -v ON_ERROR_STOP=1 -d shop -f roles_source.sql        -- and then set the role's password: \password pgbaton
--
-- Then: pgbaton check --publication pgbaton_shop … The role owns nothing, makes nothing but replication slots, and
-- changes no row. It reads every table; to let it read some only, grant SELECT on these (and on sequences) instead.

-- Where there is no attribute REPLICATION to give (managed services), leave it out and grant their role instead:
-- GRANT rds_replication TO pgbaton;
create role pgbaton login replication;
grant connect on database :"DBNAME" to pgbaton;

-- 14 and newer in one line; before, schema by schema, and tables that come later again.
select current_setting('server_version_num')::int >= 140000 as has_read_all \gset
\if :has_read_all
grant pg_read_all_data to pgbaton;
\else
select format('grant usage on schema %1$I to pgbaton; grant select on all tables in schema %1$I to pgbaton; '
              'grant select on all sequences in schema %1$I to pgbaton', nspname)
  from pg_namespace where nspname <> 'information_schema' and nspname !~ '^pg_' \gexec
\endif

-- Optional: what others run, when they are in the way (names the query that a slot waits for).
grant pg_read_all_stats to pgbaton;

-- Only its owner can put a table into a publication, so the publications are the administrator's: pgbaton verifies
-- them and never drops them. Tables that UPDATE and DELETE can identify a row of go into the first; the others into a
-- second one of the same name with __ins behind it, for INSERT and TRUNCATE only, because publishing their UPDATEs
-- would make these fail on the source. A new table has to be added to one of the two by hand.
with all_tables as (
  select c.oid, c.relkind, coalesce(pg_partition_root(c.oid), c.oid) as root,
         c.relreplident = 'f' or pg_get_replica_identity_index(c.oid) is not null as identified
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p') and c.relpersistence = 'p'
     and n.nspname not in ('information_schema', 'pgbaton') and n.nspname !~ '^pg_'
     and not exists (select from pg_depend d
                      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
), by_root as (
  -- 13 and newer: a partitioned table with a key is published as a whole, and so are partitions that come later.
  select oid from all_tables
   where relkind = 'p' and oid = root and identified and current_setting('server_version_num')::int >= 130000
), chosen as (
  select identified, string_agg('only ' || oid::regclass, ', ' order by oid) as names from all_tables
   where oid in (select oid from by_root) or (relkind = 'r' and root not in (select oid from by_root))
   group by identified
)
select 'create publication pgbaton_shop' || coalesce(' for table ' || (select names from chosen where identified), '')
union all
select format('create publication pgbaton_shop__ins for table %s with (publish = ''insert, truncate'')', names)
  from chosen where not identified
\gexec
