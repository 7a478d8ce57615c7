-- And of what a clone refuses, beside everything.sql: on the source.
create role lonely;
create table owned (id int primary key, v int);
alter table owned owner to lonely;
insert into pg_extension select 99999, 'ghost', 10, 2200, false, '1.0', null, null;
create table "Far away" (id int primary key, v int) tablespace away;
set allow_system_table_mods = on;
create collation pg_catalog.odd from "C";
create table collated (id int primary key, t text collate odd);
select lo_create(4711);
create publication pgbaton;
