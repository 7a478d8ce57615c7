-- Schema pgbaton, from version 1 to 2: what tells that the source's history is no longer the one a replica was built on.

alter table pgbaton.replica add column publication_state json;
comment on column pgbaton.replica.publication_state is 'Catalog rows (oid, xmin) of the publications when the slot was made: one that was altered, even if it was put back later, left changes out of the stream.';

alter table pgbaton.progress add column slot_restart_lsn pg_lsn not null default '0/0';
comment on column pgbaton.progress.slot_restart_lsn is 'Largest restart_lsn of the slot that was seen on the source''s timeline; the source stores it before it shows it, so a smaller one later means that the source went back in time.';
