-- Schema pgbaton, version 7: the registry of generations that `pgbaton rebuild` builds. It is used in the maintenance
-- database of the target's server; everywhere else it is empty.

create table pgbaton.generation (
  id            bigint generated always as identity primary key,
  live_database text not null,
  replica       text not null,
  state         text not null check (state in ('building', 'live', 'kept')),
  built         boolean not null,
  database_oid  oid,
  on_source     text not null default '',
  source        text not null default '',
  mode          text not null default '',
  position_lsn  pg_lsn not null default '0/0',
  position_at   timestamptz,
  writer_host   text not null default '',
  writer_pid    integer not null default 0,
  started_at    timestamptz not null default clock_timestamp(),
  live_at       timestamptz,
  retired_at    timestamptz
);
create unique index generation_live on pgbaton.generation (live_database) where state = 'live';
comment on table pgbaton.generation is 'One row per database that serves, served or is to serve as live_database. Recorded before it is made.';
comment on column pgbaton.generation.state is 'live: the database has the name live_database; else its name is <live_database>__g<id>. Changed in the transaction that renames.';
comment on column pgbaton.generation.built is 'False: it was there when the first rebuild began. Such a database is never dropped.';
comment on column pgbaton.generation.database_oid is 'Null until the database is made.';
comment on column pgbaton.generation.on_source is 'Slot on the source that this generation may have, and beginning of the names of its publications; empty when they are gone.';
comment on column pgbaton.generation.position_lsn is 'Every source transaction with a smaller commit LSN was in the database when it went live; 0/0 not known.';
comment on column pgbaton.generation.writer_pid is 'Process, on writer_host, that builds or built it.';
revoke all on pgbaton.generation from public;
