-- Schema pgbaton, version 3: the ledger guard, and tombstones that expire by position only.

alter table pgbaton.table_state drop constraint table_state_guard_check;
alter table pgbaton.table_state
  add constraint table_state_guard_check check (guard in ('column', 'ledger', 'none')),
  add column ledger text not null default '',
  add column ledger_key text not null default '';
comment on column pgbaton.table_state.guard is 'Where the commit LSN of a row''s last change is kept: column _pgbaton_lsn, a side table in this schema, or nowhere.';
comment on column pgbaton.table_state.ledger is 'Name, in this schema, of the side table with the keys that changed since the boundary: k1 to kn, commit_lsn, deleted. Empty without one.';
comment on column pgbaton.table_state.ledger_key is 'The table''s columns that k1 to kn stand for, as a list of identifiers.';

alter table pgbaton.replica add column expired_lsn pg_lsn not null default '0/0';
comment on column pgbaton.replica.expired_lsn is 'Tombstones and ledger entries below it may be gone: an older change can no longer be judged, and is refused.';

create table pgbaton.tombstone_hold (
  id          bigint generated always as identity primary key,
  replica     text not null,
  schema_name text not null,
  table_name  text not null,
  from_lsn    pg_lsn not null default '0/0',
  until_lsn   pg_lsn,
  reason      text not null,
  created_at  timestamptz not null default now()
);
comment on table pgbaton.tombstone_hold is 'Tables for which a change older than a delete can still arrive: their deletes leave tombstones, and nothing at or above from_lsn expires.';
comment on column pgbaton.tombstone_hold.from_lsn is 'Set by the writer: from there on every delete leaves a tombstone. 0/0 until then.';
comment on column pgbaton.tombstone_hold.until_lsn is 'The writer ends the hold once the stream has passed it; null: whoever asked for it does.';

-- A tombstone that goes too early resurrects rows without a word. So the server itself refuses what the recorded
-- expiry does not cover, whoever asks for it. A replica that is being made anew or removed needs its tombstones no more.
create function pgbaton.refuse_early_expiry() returns trigger language plpgsql set search_path = pg_catalog as $$
declare
  owner_name text;
  early_lsn pg_lsn;
  expired_lsn pg_lsn;
begin
  if tg_op = 'TRUNCATE' then
    raise exception 'pgbaton: %.% is never truncated: rows that were deleted on the source would come back',
      tg_table_schema, tg_table_name using errcode = 'object_not_in_prerequisite_state',
      hint = 'pgbaton removes what is no longer needed by itself; finish or drop remove the rest.';
  end if;
  if tg_nargs = 0 then
    select g.replica, g.commit_lsn, r.expired_lsn into owner_name, early_lsn, expired_lsn
      from gone g join pgbaton.replica r on r.name = g.replica
     where g.commit_lsn >= r.expired_lsn and r.phase <> 'creating' limit 1;
  else
    select r.name, g.commit_lsn, r.expired_lsn into owner_name, early_lsn, expired_lsn
      from gone g cross join pgbaton.replica r
     where r.name = tg_argv[0] and g.commit_lsn >= r.expired_lsn and r.phase <> 'creating' limit 1;
  end if;
  if found then
    raise exception 'pgbaton: an entry of %.% at % is still needed (replica %, expired below %)',
      tg_table_schema, tg_table_name, early_lsn, owner_name, expired_lsn
      using errcode = 'object_not_in_prerequisite_state',
      hint = 'Without it an older change could bring a deleted row back. pgbaton removes it when its position has passed.';
  end if;
  return null;
end
$$;

create trigger early_expiry after delete on pgbaton.tombstone referencing old table as gone
  for each statement execute function pgbaton.refuse_early_expiry();
create trigger no_truncate before truncate on pgbaton.tombstone
  for each statement execute function pgbaton.refuse_early_expiry();

revoke all on pgbaton.tombstone_hold from public;
