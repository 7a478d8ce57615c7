-- Open transactions of other sessions of this database that have an xid: pid, for how long, what kind of session, a text,
-- the xid, and whether something may come of them that the triggers of a fence do not refuse. Nothing does of one that
-- has only locked rows or written to temporary tables, as far as its locks tell; a relation that nobody sees yet is one
-- that it has made.
with here as (
  select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()
), held as (
  select l.pid, bool_or(strong and not temporary) as strong, bool_or(l.mode = 'RowShareLock' or (strong and temporary)) as known,
         string_agg(distinct case when c.oid is null then 'a relation that it makes'
                                  when temporary then 'temporary tables'
                                  else l.relation::regclass::text end, ', ') filter (where strong) as what
    from pg_catalog.pg_locks l
    left join pg_catalog.pg_class c on c.oid = l.relation
   cross join lateral (select l.mode not in ('AccessShareLock', 'RowShareLock') as strong,
                              coalesce(c.relpersistence = 't', false) as temporary) as of_it
   where l.locktype = 'relation' and l.granted and l.database in (select oid from here)
   group by l.pid
)
select a.pid, coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8,
       coalesce(a.backend_type, 'client backend'),
       format('pid %s%s%s, open for %s s, %s', a.pid, coalesce(' ' || a.usename, ''),
              coalesce(' (' || nullif(a.application_name, '') || ')', ''),
              round(coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::numeric, 1),
              coalesce('holding ' || held.what, 'with a transaction id and no lock that tells what for')),
       a.backend_xid::text, coalesce(held.strong, false) or not coalesce(held.known, false)
  from pg_catalog.pg_stat_activity a left join held on held.pid = a.pid
 where a.datid in (select oid from here) and a.pid <> pg_catalog.pg_backend_pid() and a.backend_xid is not null
   -- Those of autovacuum, which have no user, write nothing of the application's.
   and a.usesysid is not null and coalesce(a.backend_type, '') <> 'autovacuum worker'
