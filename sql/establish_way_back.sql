-- The replica that streams back, in schema pgbaton of what was the source. $1 its name, $2 what the other side has
-- recorded of it (pgbaton.replica.way_back), $3 the epoch. One statement; the caller's transaction has taken away what
-- was there of that name.
with given as (select $2::json as w),
new as (
  insert into pgbaton.replica (name, generation, source_system_id, source_timeline, source_database, slot, publication,
      publication_inserts, consistent_point, phase, epoch, direction, options, schema_restored, replica_role,
      publication_state, copied_at, indexed_at, ready_at, ready_goal_lsn, ready_lsn)
    select $1, w ->> 'generation', (w ->> 'source_system_id')::numeric, (w ->> 'source_timeline')::bigint,
           w ->> 'source_database', w ->> 'slot', w ->> 'publication', w ->> 'publication_inserts',
           (w ->> 'from_lsn')::pg_lsn, 'ready', $3::bigint, w ->> 'direction', w -> 'options', true, true,
           w -> 'publication_state', clock_timestamp(), clock_timestamp(), clock_timestamp(),
           (w ->> 'from_lsn')::pg_lsn, (w ->> 'from_lsn')::pg_lsn
      from given),
progress as (
  insert into pgbaton.progress (replica, generation, applier_number, applier_count, epoch, applied_lsn)
    select $1, w ->> 'generation', 0, 1, $3::bigint, (w ->> 'from_lsn')::pg_lsn from given)
insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid, boundary, guard, guarded,
    phase, inserts_only, note, source_shape)
  select $1, w ->> 'generation', t.schema_name, t.table_name, t.source_oid,
         case when t.skipped then '0/0'::pg_lsn else (w ->> 'from_lsn')::pg_lsn end, 'none', true,
         case when t.skipped then 'skipped' else 'done' end, t.inserts_only, t.note, t.source_shape
    from given cross join json_to_recordset(w -> 'tables') as t(schema_name text, table_name text, source_oid oid,
      skipped boolean, inserts_only boolean, note text, source_shape json)
