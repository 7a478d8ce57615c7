-- Schema pgbaton, version 9: which table of this database is meant, and why one may not be as on the source.

alter table pgbaton.table_state
  add column target_oid oid not null default 0,
  add column target_database oid not null default 0;
comment on column pgbaton.table_state.target_oid is 'The table in this database, whatever it is called by now; 0 until a writer has streamed.';
comment on column pgbaton.table_state.target_database is 'The database (pg_database.oid) that target_oid is of: one that was restored from a dump has other oids.';

create table pgbaton.doubt (
  id          bigint generated always as identity primary key,
  replica     text not null,
  schema_name text not null,
  table_name  text not null,
  kind        text not null check (kind in ('unproven', 'differs', 'outside')),
  reason      text not null,
  remedy      text not null,
  at          timestamptz not null default clock_timestamp()
);
-- A reason may name hundreds of columns.
create unique index doubt_reason on pgbaton.doubt (replica, schema_name, table_name, md5(reason));
comment on table pgbaton.doubt is 'Why a table may not be as it is on the source although every change that was sent is applied: DDL sends nothing.';
comment on column pgbaton.doubt.kind is 'unproven: rows may differ, until a comparison or a resync settles it; differs: is so as long as it is seen in the catalogs; outside: a table of the source that the replica does not have.';

revoke all on pgbaton.doubt from public;
