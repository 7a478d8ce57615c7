-- Sessions that hold locks on user tables which the fence has to wait for: pid (0: a prepared transaction), how long
-- their transaction is open, what they are, the tables.
select coalesce(l.pid, 0), coalesce(extract(epoch from clock_timestamp() - min(a.xact_start)), 0)::float8,
       case when l.pid is null then 'prepared transaction' else coalesce(min(a.backend_type), 'client backend') end,
       format('%s%s%s, open for %s s, holding %s', coalesce('pid ' || l.pid, 'a prepared transaction'),
              coalesce(' ' || min(a.usename), ''), coalesce(' (' || nullif(min(a.application_name), '') || ')', ''),
              round(coalesce(extract(epoch from clock_timestamp() - min(a.xact_start)), 0)::numeric, 1),
              string_agg(distinct l.relation::regclass::text, ', ')),
       string_agg(distinct format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""')), ' ')
  from pg_catalog.pg_locks l
  join pg_catalog.pg_class c on c.oid = l.relation
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'relation' and l.granted and c.relpersistence <> 't' and l.pid is distinct from pg_catalog.pg_backend_pid()
   and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
   and (c.relkind in ('r', 'p')
        or (c.relkind = 'f' and exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid)))
   and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton')
   and l.mode in ('RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',
                  'ExclusiveLock', 'AccessExclusiveLock')
 group by l.pid, l.virtualtransaction
