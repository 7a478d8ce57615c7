-- The ledger of one table: psql -v ledger=ledger_1 -v columns='k1 integer' -v keys=k1 -v replica=default
-- Made once the table is copied and empty then: a key without an entry is guarded by the table's boundary. What a run
-- that was killed in between has left is made anew; nothing was entered yet.
drop table if exists pgbaton.:ledger;
create table pgbaton.:ledger (
  :columns,
  commit_lsn pg_lsn not null,
  deleted    boolean not null,
  primary key (:keys)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
revoke all on pgbaton.:ledger from public;
create trigger early_expiry after delete on pgbaton.:ledger referencing old table as gone
  for each statement execute function pgbaton.refuse_early_expiry(:'replica');
create trigger no_truncate before truncate on pgbaton.:ledger
  for each statement execute function pgbaton.refuse_early_expiry(:'replica');
