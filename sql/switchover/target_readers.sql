-- Transactions on the target that read its tables and have been open for a second: the flip, which drops guard columns
-- and the fence, waits for them, 2 s at most. pid, text.
select a.pid, format('%s (%s) reads %s, and its transaction is open for %s', coalesce(a.usename, '?'),
                     coalesce(nullif(a.application_name, ''), '-'), min(l.relation::regclass::text),
                     date_trunc('second', clock_timestamp() - a.xact_start))
  from pg_catalog.pg_stat_activity a join pg_catalog.pg_locks l on l.pid = a.pid and l.granted and l.locktype = 'relation'
  join pg_catalog.pg_class c on c.oid = l.relation
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where a.datname = current_database() and a.pid <> pg_backend_pid() and c.relkind in ('r', 'p')
   and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
   and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton')
   and a.xact_start < clock_timestamp() - interval '1 second'
   and not starts_with(coalesce(a.application_name, ''), 'pgbaton/')
 group by a.pid, a.usename, a.application_name, a.xact_start
