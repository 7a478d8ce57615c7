=== s44_sequences
--- source
create table owned (id serial primary key, v text); create sequence down increment -5 minvalue -1000 maxvalue 1000 start 1000; create sequence cached cache 50; create sequence never start 17;
create sequence round minvalue 1 maxvalue 100 cycle; create sequence small as smallint; create sequence "Q""s" increment 3; create sequence by_hand owned by owned.v;
select nextval('down'), nextval('cached'), setval('round', 99), nextval('small'), nextval('"Q""s"'), setval('by_hand', 5, false)
--- live
select count(nextval('down')) from generate_series(1, 100); select count(nextval('cached')) from generate_series(1, 500)
insert into owned (v) select 'x' from generate_series(1, 20)
--- stream
select nextval('round'), nextval('round'), nextval('"Q""s"')
--- target
insert into owned (v) values ('next')

=== s45_publications_of_the_source
Replication objects of the source are not the target's business.
--- source
create table t (id int primary key); create publication own_publication for table t
--- stream
insert into t values (1)
--- differs publication

=== owners_and_grants superuser
--- source
create table t (id int primary key, v text, secret text) with (fillfactor = 70, autovacuum_enabled = false); comment on table t is 'a ''table'''; comment on column t.v is 'V';
alter table t owner to shape_owner; grant select on t to shape_reader with grant option; grant update (v), select (id) on t to public; revoke delete on t from shape_owner;
create view v as select * from t; grant select on v to shape_reader; create sequence s; grant usage on s to shape_reader; alter sequence s owner to shape_owner;
create function f() returns int language sql security definer as 'select 1'; revoke execute on function f() from public; grant execute on function f() to shape_reader; comment on function f() is 'F';
create type m as enum ('a'); alter type m owner to shape_owner; comment on type m is 'M'; grant usage on schema owners_and_grants to shape_reader; comment on schema owners_and_grants is 'S';
alter default privileges in schema owners_and_grants grant select on tables to shape_reader; alter default privileges for role shape_owner revoke execute on functions from public;
create index t_v on t (v) with (fillfactor = 50); comment on index t_v is 'I'; alter index t_v set (fillfactor = 60); alter table t alter v set statistics 500, alter v set (n_distinct = -0.5); cluster t using t_v;
create statistics st (dependencies) on id, v from t; comment on statistics st is 'ST'; create table cl (id int primary key); alter table cl cluster on cl_pkey; comment on constraint cl_pkey on cl is 'PK';
create table in_space (id int primary key, v text) tablespace shape_space; create index in_space_v on in_space (v) tablespace shape_space; create table pspace (id int primary key) partition by range (id) tablespace shape_space;
create table pspace_1 partition of pspace for values from (0) to (10); create aggregate total (int) (sfunc = int4pl, stype = int, initcond = '0'); create operator === (leftarg = int, rightarg = int, function = int4eq);
create cast (m as int) with inout; create text search configuration conf (copy = simple); create text search dictionary di (template = simple); create collation coll (locale = 'C');
create domain dom as int; comment on domain dom is 'D'; create procedure pr() language sql as 'select 1'; create conversion conv for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8;
insert into t values (1, 'a', 's'); insert into in_space values (1, 'x'); insert into pspace values (1)
--- live
update t set v = 'b'
--- stream
insert into in_space values (2, 'y'); update pspace set id = 2

=== database_properties superuser
--- source
comment on database postgres is 'the ''shop'''; grant connect on database postgres to shape_reader with grant option; revoke temporary on database postgres from public;
alter database postgres set work_mem = '7MB'; alter database postgres set search_path = "Sp a", public, "a""b,c"; alter role shape_owner in database postgres set datestyle = 'German';
alter database postgres set "my.own" = 'it''s'; alter role all in database postgres set temp_tablespaces = ''; alter database postgres set default_transaction_read_only = off

=== event_triggers superuser
They are not asked about what the tool does on the target.
--- source
create table t (id int primary key); create materialized view m as select count(*) from t;
create function nobody() returns event_trigger language plpgsql as $$ begin if current_setting('application_name') like 'pgbaton%' then raise 'no DDL here'; end if; end $$;
create event trigger guardian on ddl_command_start when tag in ('ALTER TABLE', 'DROP SCHEMA', 'DROP TABLE', 'REFRESH MATERIALIZED VIEW') execute function nobody();
create event trigger off on sql_drop execute function nobody(); alter event trigger off disable
--- stream
insert into t values (1)
--- target
alter table t add n int
