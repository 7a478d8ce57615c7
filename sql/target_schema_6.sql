-- Schema pgbaton, version 6: the steps of readiness with their moments, and what the writer reports for people.

alter table pgbaton.replica
  add column copied_at timestamptz,
  add column indexed_at timestamptz,
  add column ready_at timestamptz,
  add column ready_goal_lsn pg_lsn not null default '0/0',
  add column ready_lsn pg_lsn not null default '0/0',
  add column ready_lag_bytes bigint not null default 0;
comment on column pgbaton.replica.copied_at is 'Readiness 1: every row of this generation''s copy was committed. Null for one that is older than this column; the phase tells, then.';
comment on column pgbaton.replica.indexed_at is 'Readiness 2: indexes, constraints and guards were complete and valid.';
comment on column pgbaton.replica.ready_at is 'Readiness 3: the stream had durably reached ready_goal_lsn, with a lag below ready_lag_bytes.';
comment on column pgbaton.replica.ready_goal_lsn is 'The source''s position observed after indexed_at; 0/0 until then.';
comment on column pgbaton.replica.ready_lsn is 'The applied position when it became ready.';
comment on column pgbaton.replica.ready_lag_bytes is 'Ready_lag as the last writer had it; 0 until one has streamed.';

alter table pgbaton.progress
  add column report json,
  add column reported_at timestamptz;
comment on column pgbaton.progress.report is 'What the writer does, about once a second, as texts: rates, times, what is left. For people, nothing depends on it.';
