-- Hands the tables of the shadow replica :'shadow' (pgbaton/resync/resync.hpp) back to :'replica' at :'boundary'.
-- Returns how many tables the shadow had, how many were out, how many came back, and the rows of their copies.
with gone as (
  delete from pgbaton.table_state where replica = :'shadow' returning *
), back as (
  update pgbaton.table_state t
     set detached = false, boundary = :'boundary', floor_lsn = greatest(t.floor_lsn, g.floor_lsn),
         phase = case g.phase when 'skipped' then 'skipped' else t.phase end,
         note = case g.phase when 'skipped' then g.note else t.note end,
         source_shape = g.source_shape, missing_rows = t.missing_rows + g.missing_rows, rows = g.rows, bytes = g.bytes
    from gone g
   where t.replica = :'replica' and t.detached and t.schema_name = g.schema_name and t.table_name = g.table_name
  returning t.rows
)
select (select count(*) from gone),
       (select count(*) from pgbaton.table_state where replica = :'replica' and detached),
       (select count(*) from back),
       (select coalesce(sum(rows), 0) from back);
