-- Schema pgbaton, version 8: that the source was found to be its own past is remembered. What shows it by comparison
-- (its WAL ends before what the target has) is gone as soon as that source has written enough.

alter table pgbaton.replica
  add column history_break json;
comment on column pgbaton.replica.history_break is '{kind, exit_code, message, hint, at, timeline, flush_lsn, slot_lsn} of a source that went back in time: what was found, and where that source and its slot stood. Null: never, or it was shown to be another server.';
