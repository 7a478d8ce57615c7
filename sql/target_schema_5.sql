-- Schema pgbaton, version 5: tables can leave the stream for a while and come back (resync).

alter table pgbaton.table_state add column detached boolean not null default false;
comment on column pgbaton.table_state.detached is 'The table is being copied again: the stream leaves it out until it has been handed back.';

alter table pgbaton.progress add column tables_version bigint not null default 0;
alter table pgbaton.progress add column tables_obeyed bigint not null default 0;
comment on column pgbaton.progress.tables_version is 'Raised with every change of table_state that the stream has to obey; a writer that read an older one can commit nothing and reads again.';
comment on column pgbaton.progress.tables_obeyed is 'The tables_version that the present writer has read.';
