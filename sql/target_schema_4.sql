-- Schema pgbaton, version 4: what drift of a table and rows that it misses are judged by.

alter table pgbaton.table_state add column source_shape json;
alter table pgbaton.table_state add column missing_rows bigint not null default 0;
comment on column pgbaton.table_state.source_shape is '{"filenode", "columns": {number: name}} of the source''s table as this database has it; null: not known.';
comment on column pgbaton.table_state.missing_rows is 'Updates and deletes so far that met no row here although one was due.';
