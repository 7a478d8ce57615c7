-- What could stand in the way of a switchover: psql -f sql/switchover/preflight.sql, on the source.
-- One row for each finding: severity, id, object, message, remedy.
with recursive carried as (
  select c.oid
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p') and c.relpersistence <> 't'
     and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pgbaton', 'pgbaton_fence')
     and n.nspname !~ '^pg_(toast_)?temp_'
     and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
                        and d.objsubid = 0 and d.deptype = 'e')
), down as (
  select oid from carried
  union
  select c.oid from down join pg_catalog.pg_inherits i on i.inhparent = down.oid
                         join pg_catalog.pg_class c on c.oid = i.inhrelid
   where c.relkind in ('r', 'p') and c.relpersistence <> 't'
), up as (
  select oid from down
  union
  select i.inhparent from up join pg_catalog.pg_inherits i on i.inhrelid = up.oid
), tables as (
  -- What will be fenced: sql/switchover/fenced.sql.
  select c.oid, c.oid::regclass::text as name, c.relowner
    from up join pg_catalog.pg_class c on c.oid = up.oid
)
select 'blocker', 'source.prepared', format('prepared transaction %L', gid),
       format('made by %s %s ago: it can still be committed behind the fence', owner,
              date_trunc('second', now() - prepared)),
       format('COMMIT PREPARED %1$L; or ROLLBACK PREPARED %1$L;', gid)
  from pg_catalog.pg_prepared_xacts where database = current_database()
union all
select 'warning', 'source.long_transaction', format('pid %s', a.pid),
       format('%s (%s) has written and is open for %s: it is waited for (transaction-wait), then ended or, with '
              'long-transactions: fail, the switchover ends', a.usename, coalesce(nullif(a.application_name, ''), '-'),
              date_trunc('second', clock_timestamp() - a.xact_start)), 'Let it end first.'
  from pg_catalog.pg_stat_activity a
 where a.datname = current_database() and a.pid <> pg_backend_pid() and coalesce(a.backend_type, 'client backend') = 'client backend'
   and a.xact_start < clock_timestamp() - interval '1 second'
   and exists (select from pg_catalog.pg_locks l join tables t on t.oid = l.relation
                where l.pid = a.pid and l.granted and l.mode in ('RowExclusiveLock', 'ShareUpdateExclusiveLock',
                  'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
union all
-- Its apply worker fires no statement triggers: no fence stops it.
select 'blocker', 'source.subscription', format('subscription %I', s.subname),
       'writes into tables of the source in spite of any fence',
       format('ALTER SUBSCRIPTION %I DISABLE; and let the target subscribe afterwards.', s.subname)
  from pg_catalog.pg_subscription s
 where s.subenabled and s.subdbid = (select oid from pg_catalog.pg_database where datname = current_database())
union all
select 'blocker', 'source.large_objects', format('%s large objects', count(*)), 'are not carried to the target',
       'Move them by hand (lo_export, lo_import) or into columns, and remove them on the source.'
  from pg_catalog.pg_largeobject_metadata having count(*) > 0
union all
select 'warning', 'source.matview', c.oid::regclass::text,
       'what it holds on the target is as of the copy: a refresh of the source is not carried',
       format('REFRESH MATERIALIZED VIEW %s; on the target, after the switchover.', c.oid::regclass)
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'm' and n.nspname not in ('pg_catalog', 'information_schema')
union all
select 'blocker', 'source.synchronous', 'synchronous_standby_names',
       'no synchronous standby is connected: what is committed on the source would wait for one',
       'Bring the standby back, or take it out of synchronous_standby_names.'
 where current_setting('synchronous_standby_names') <> ''
   and not exists (select from pg_catalog.pg_stat_replication
                    where coalesce(sync_state, 'not to be seen') in ('sync', 'quorum', 'not to be seen'))
union all
select 'blocker', 'source.trigger', t.name, 'has a trigger named pgbaton_fence that is not ours',
       format('ALTER TRIGGER pgbaton_fence ON %s RENAME TO …; on both sides.', t.name)
  from tables t join pg_catalog.pg_trigger g on g.tgrelid = t.oid join pg_catalog.pg_proc p on p.oid = g.tgfoid
  join pg_catalog.pg_namespace f on f.oid = p.pronamespace
 where g.tgname = 'pgbaton_fence' and f.nspname <> 'pgbaton_fence'
union all
select 'blocker', 'source.owner', t.name, 'the role does not own it, so it cannot put a fence on it and take it off again',
       format('Connect as %s, or as a superuser.', pg_catalog.pg_get_userbyid(t.relowner))
  from tables t where not pg_catalog.pg_has_role(t.relowner, 'USAGE')
union all
select 'blocker', 'source.create', 'database ' || current_database(), 'the role may not create the schema of the fence',
       format('GRANT CREATE ON DATABASE %I TO %I;', current_database(), current_user)
 where not pg_catalog.has_database_privilege(current_database(), 'CREATE')
union all
select 'blocker', 'source.fenced', 'schema pgbaton_fence',
       coalesce(pg_catalog.obj_description(oid, 'pg_namespace'), 'writers are fenced already'), 'pgbaton switchover --undo'
  from pg_catalog.pg_namespace where nspname = 'pgbaton_fence'
