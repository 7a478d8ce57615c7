-- Hands the tables of the shadow replica :'shadow' (pgbaton/resync/resync.hpp) back to :'replica' at :'boundary'. What
-- was announced only (--add, phase pending) becomes a table of the replica as the shadow has it.
-- Returns how many tables the shadow had, how many were out, how many came back (without partitioned roots), and the
-- rows of their copies.
with gone as (
  delete from pgbaton.table_state where replica = :'shadow' returning *
), back as (
  update pgbaton.table_state t
     set detached = false, boundary = :'boundary', floor_lsn = greatest(t.floor_lsn, g.floor_lsn),
         guard = case t.phase when 'pending' then g.guard else t.guard end,
         guarded = case t.phase when 'pending' then g.guarded else t.guarded end,
         ledger = case t.phase when 'pending' then g.ledger else t.ledger end,
         ledger_key = case t.phase when 'pending' then g.ledger_key else t.ledger_key end,
         phase = case when g.phase = 'skipped' or t.phase = 'pending' then g.phase else t.phase end,
         note = case when g.phase = 'skipped' then g.note else t.note end,
         source_shape = g.source_shape, missing_rows = t.missing_rows + g.missing_rows, rows = g.rows, bytes = g.bytes
    from gone g
   where t.replica = :'replica' and t.detached and t.schema_name = g.schema_name and t.table_name = g.table_name
  returning g.phase, t.rows
), proven as (
  delete from pgbaton.doubt d using gone g
   where d.replica = :'replica' and d.kind = 'unproven' and d.schema_name = g.schema_name and d.table_name = g.table_name
)
select (select count(*) from gone),
       (select count(*) from pgbaton.table_state where replica = :'replica' and detached),
       (select count(*) from back),
       (select count(*) from back where phase <> 'skipped'),
       (select coalesce(sum(rows), 0) from back);
