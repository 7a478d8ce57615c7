-- Sessions that wait for locks of those whose application_name begins with $1, directly or in the queue behind one that
-- does: an ALTER TABLE waits for a COPY, and every query of the table waits for the ALTER TABLE. The
-- longest wait first, a session once for each of ours that it waits for; what the role may not see of others is null.
with recursive ours as materialized (
  select pid, substr(application_name, length($1::text) + 1) as role
    from pg_catalog.pg_stat_activity where datname = current_database() and starts_with(application_name, $1)
), waiting as materialized (
  select l.pid, pg_catalog.pg_blocking_pids(l.pid) as blockers
    from (select distinct pid from pg_catalog.pg_locks where not granted) l
), queue as (
  select w.pid, o.pid as behind from waiting w join ours o on o.pid = any (w.blockers)
  union
  select w.pid, q.behind from queue q join waiting w on q.pid = any (w.blockers)
)
select q.pid, a.usename::text as user_name, a.datname::text as database, a.application_name,
       coalesce(left(a.query, 100), '') as query, l.mode, o.role,
       case when l.locktype = 'relation' and d.oid is not null then l.relation::regclass::text end as table_name,
       coalesce(greatest(extract(epoch from now() - coalesce((to_jsonb(l) ->> 'waitstart')::timestamptz,
                                                             a.query_start)), 0), -1)::float8 as seconds
  from queue q
  join ours o on o.pid = q.behind
  join pg_catalog.pg_stat_activity a on a.pid = q.pid
  join pg_catalog.pg_locks l on l.pid = q.pid and not l.granted
  left join pg_catalog.pg_database d on d.oid = l.database and d.datname = current_database()
 where q.pid not in (select pid from ours)
 order by seconds desc, q.pid, q.behind
