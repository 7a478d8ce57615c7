-- Schema pgbaton on the target: the only durable state of a replica. Version 1.
--
-- Run in one transaction (psql -1 -f). The tool runs it itself, under an advisory lock, when the schema is missing.
-- There are no foreign keys between these tables on purpose: sessions with session_replication_role = replica would not
-- check them, and the tool deletes a replica's rows together, in one transaction.

create schema pgbaton;
revoke all on schema pgbaton from public;
comment on schema pgbaton is 'State of pgbaton replicas. Removed with the last replica (pgbaton finish, pgbaton drop).';

create table pgbaton.meta (
  only_row       boolean primary key default true check (only_row),
  schema_version integer not null,
  installed_at   timestamptz not null default now()
);
comment on table pgbaton.meta is 'One row: the version of this schema. A newer tool migrates it, an older one refuses it.';
insert into pgbaton.meta (schema_version) values (1);

create table pgbaton.replica (
  name                text primary key,
  generation          text not null,
  source_system_id    numeric(20) not null,
  source_timeline     bigint not null,
  source_database     text not null,
  slot                text not null,
  publication         text not null,
  publication_inserts text not null default '',
  owns_publication    boolean not null default true,
  consistent_point    pg_lsn not null default '0/0',
  phase               text not null
                      check (phase in ('creating', 'copying', 'indexing', 'streaming', 'ready')),
  epoch               bigint not null default 0,
  direction           text not null default 'forward',
  options             json,
  schema_restored     boolean not null default false,
  replica_role        boolean not null default true,
  writer_host         text not null default '',
  writer_pid          integer not null default 0,
  writer_backend_pid  integer not null default 0,
  writer_since        timestamptz,
  last_error          json,
  created_at          timestamptz not null default now()
);
comment on table pgbaton.replica is 'One row per replica: a named pairing of a source with this database.';
comment on column pgbaton.replica.generation is 'Unique id of one complete build; a restart begins a new one.';
comment on column pgbaton.replica.slot is 'On the source. Recorded before it is created, like the publications, so that a crash leaves nothing unknown.';
comment on column pgbaton.replica.publication_inserts is 'Publication (insert, truncate) of the tables without usable identity; empty when there are none.';
comment on column pgbaton.replica.owns_publication is 'False: made by an administrator, never dropped.';
comment on column pgbaton.replica.consistent_point is 'LSN returned with the slot''s first snapshot; 0/0 until the slot exists.';
comment on column pgbaton.replica.phase is 'creating: names recorded; copying: slot exists; indexing: every table committed; streaming: copy complete; ready: caught up once.';
comment on column pgbaton.replica.epoch is 'Number of the writer''s term. Whoever carries a smaller one can commit nothing.';
comment on column pgbaton.replica.options is 'Options that must not change between the runs of one generation.';
comment on column pgbaton.replica.schema_restored is 'Section pre-data of the schema has been restored and committed.';
comment on column pgbaton.replica.replica_role is 'Whether the apply sessions set session_replication_role = replica.';
comment on column pgbaton.replica.writer_backend_pid is 'Backend, on this server, of the connection that holds the lease.';
comment on column pgbaton.replica.last_error is '{kind, exit_code, message, hint, at} of the last run; cleared by the next start.';

create table pgbaton.table_state (
  replica      text not null,
  generation   text not null,
  schema_name  text not null,
  table_name   text not null,
  source_oid   oid not null,
  boundary     pg_lsn not null default '0/0',
  floor_lsn    pg_lsn not null default '0/0',
  guard        text not null default 'column' check (guard in ('column', 'none')),
  guarded      boolean not null default false,
  phase        text not null default 'pending'
               check (phase in ('pending', 'copying', 'copied', 'indexed', 'done', 'skipped')),
  rows         bigint not null default 0,
  bytes        bigint not null default 0,
  bytes_total  bigint not null default 0,
  inserts_only boolean not null default false,
  note         text not null default '',
  primary key (replica, schema_name, table_name)
);
comment on table pgbaton.table_state is 'One row per copied table of a replica.';
comment on column pgbaton.table_state.boundary is 'LSN whose snapshot the rows were copied from: a change is applied iff its commit LSN is at or above it. 0/0 until copied.';
comment on column pgbaton.table_state.floor_lsn is 'Commit LSN of the last TRUNCATE that was applied.';
comment on column pgbaton.table_state.guard is 'Where the commit LSN of a row''s last change is kept: column _pgbaton_lsn, or nowhere.';
comment on column pgbaton.table_state.guarded is 'The guard is in place (always true for none).';
comment on column pgbaton.table_state.phase is 'copied is set in the transaction that commits the rows.';
comment on column pgbaton.table_state.bytes_total is 'Estimate from the source''s catalog.';
comment on column pgbaton.table_state.inserts_only is 'Published for insert and truncate only, because the table has no usable identity.';

create table pgbaton.copy_part (
  replica     text not null,
  schema_name text not null,
  table_name  text not null,
  part        integer not null,
  first_block bigint not null,
  end_block   bigint,
  rows        bigint not null default 0,
  bytes       bigint not null default 0,
  done        boolean not null default false,
  primary key (replica, schema_name, table_name, part)
);
comment on table pgbaton.copy_part is 'Parts (ranges of ctid) of tables that are copied by several workers; removed when the table is copied.';

create table pgbaton.progress (
  replica            text not null,
  generation         text not null,
  applier_number     integer not null,
  applier_count      integer not null,
  epoch              bigint not null,
  applied_lsn        pg_lsn not null,
  transactions       bigint not null default 0,
  changes            bigint not null default 0,
  source_commit_time timestamptz,
  updated_at         timestamptz not null default now(),
  received_lsn       pg_lsn not null default '0/0',
  confirmed_lsn      pg_lsn not null default '0/0',
  primary key (replica, generation, applier_number, applier_count)
) with (
  -- Rewritten by every apply transaction, many times a second: room on the page keeps the updates HOT, and vacuum must
  -- not wait for a fifth of a table that has one row.
  fillfactor = 50,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_threshold = 100000,
  autovacuum_analyze_scale_factor = 0
);
comment on table pgbaton.progress is 'One row per applier. Written in the transaction that writes the rows, on the condition that epoch is still the writer''s.';
comment on column pgbaton.progress.applied_lsn is 'Every source transaction with commit LSN < applied_lsn is in this database.';
comment on column pgbaton.progress.source_commit_time is 'Commit time, by the source''s clock, of the last applied transaction.';
comment on column pgbaton.progress.received_lsn is 'As last reported by the writer; for people, nothing depends on it. The same holds for confirmed_lsn.';

create table pgbaton.request (
  id         bigint generated always as identity primary key,
  replica    text not null,
  kind       text not null,
  payload    json,
  state      text not null default 'open' check (state in ('open', 'taken', 'done')),
  result     json,
  created_at timestamptz not null default now(),
  taken_at   timestamptz,
  done_at    timestamptz
);
create index request_open on pgbaton.request (replica, id) where state = 'open';
comment on table pgbaton.request is 'What other processes ask of the running writer; announced by NOTIFY pgbaton_request.';

create table pgbaton.tombstone (
  replica     text not null,
  schema_name text not null,
  table_name  text not null,
  key         text not null,
  commit_lsn  pg_lsn not null,
  primary key (replica, schema_name, table_name, key)
);
create index tombstone_commit_lsn on pgbaton.tombstone (replica, commit_lsn);
comment on table pgbaton.tombstone is 'Guards of deleted rows: an insert with a smaller commit LSN is skipped. They expire by position, never by clock.';

create table pgbaton.event (
  id      bigint generated always as identity primary key,
  replica text not null,
  at      timestamptz not null default clock_timestamp(),
  kind    text not null,
  detail  json
);
create index event_replica on pgbaton.event (replica, id);
comment on table pgbaton.event is 'What happened to a replica, for people; about the last thousand are kept.';

revoke all on all tables in schema pgbaton from public;
