-- $1 replica, $2 its generation, $3 the shadow replica (pgbaton/resync/resync.hpp): the shadow's tables become tables of
-- the replica that are out of its stream, and pending (with rows of their own) until they are handed over.
insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid, guard, phase, bytes_total,
                                 inserts_only, note, source_shape, detached)
select $1, $2, s.schema_name, s.table_name, s.source_oid, s.guard,
       case s.phase when 'skipped' then 'skipped' else 'pending' end, s.bytes_total, s.inserts_only, s.note,
       s.source_shape, true
  from pgbaton.table_state s where s.replica = $3
on conflict (replica, schema_name, table_name) do nothing
