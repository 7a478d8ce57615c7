=== s23_subtransactions
--- source
create table t (id int primary key, v text);
create table big (id int primary key, v text);
insert into t select i, 'old' from generate_series(1, 100) i
--- live
begin; insert into big select i, repeat(md5(i::text), 20) from generate_series(10001, 10500) i; savepoint a;
 insert into big select i, repeat('b', 600) from generate_series(10501, 11000) i; rollback to a;
 insert into big select i, 'c' from generate_series(11001, 11005) i; commit
begin; savepoint a; update t set v = 'live' where id < 20; savepoint b; delete from t where id < 10; rollback to b;
 delete from t where id = 90; release a; commit
begin; savepoint a; delete from t; insert into big select i, repeat('z', 900) from generate_series(15001, 15500) i; rollback
--- stream
begin; insert into big select i, repeat(md5(i::text), 20) from generate_series(1, 500) i;
 savepoint a; insert into big select i, repeat('b', 600) from generate_series(501, 1000) i;
 update big set v = 'gone' where id <= 500; rollback to a;
 insert into big select i, 'c' from generate_series(1001, 1005) i; commit
begin; savepoint a; insert into t values (201, 'a'); savepoint b; insert into t values (202, 'b'); release b;
 savepoint c; delete from t where id < 50; savepoint d; truncate t; rollback to c; update t set v = 'e' where id = 60;
 release a; commit
begin; insert into big select i, repeat('z', 900) from generate_series(5001, 6000) i; rollback
do $$ begin for i in 1..50 loop begin insert into t values (300 + i, 'p');
 if i % 2 = 0 then raise exception 'x'; end if; exception when others then insert into t values (400 + i, 'q'); end;
 end loop; end $$
--- query
select count(*) from big
select count(*), count(*) filter (where id > 400) from t

=== s26_keys_of_two_columns
--- source
create table t (a int, b text, v text, primary key (b, a));
insert into t select i, 'b' || i % 3, 'v' from generate_series(1, 60) i
--- live
update t set a = a + 1000 where a between 1 and 10
begin; update t set b = 'x' where a = 20; update t set a = 21000, v = 'w' where a = 20; commit
begin; delete from t where a = 30; insert into t values (30, 'b0', 'again'); update t set v = 'n' where a = 30; commit
--- stream
begin; update t set a = -1 where a = 41; update t set a = 41 where a = 44 and b = 'b2'; update t set a = 44 where a = -1;
 commit
update t set b = b || '_', a = -a
update t set v = v

=== s28_full_duplicates
--- source
create table t (a int, b text, j json, p point);
alter table t replica identity full;
insert into t select i % 4, nullif('x' || i % 3, 'x0'), '{"a":  1}', point(1, i % 2) from generate_series(1, 48) i;
insert into t select null, null, null, null from generate_series(1, 4)
--- live
delete from t where ctid = (select max(ctid) from t where a = 1)
update t set b = 'one' where ctid = (select min(ctid) from t where a is null)
--- stream
delete from t where ctid = (select ctid from t where a is null and b is null limit 1)
begin; update t set j = '{"a":  2}' where ctid = (select ctid from t where a = 2 limit 1);
 update t set a = a where a = 3; delete from t where ctid = (select max(ctid) from t where a = 0);
 insert into t values (0, 'x1', '{"a":  1}', '(1,0)'), (0, 'x1', '{"a":  1}', '(1,0)');
 delete from t where ctid = (select max(ctid) from t where a = 0); commit
update t set b = null, p = null where a = 2
--- query
select count(*), count(b), count(p) from t

=== s28_full_types_without_equality
--- source
create table t (x xml, j json, a box, b circle, c path, d polygon, e line, f lseg, g point[], h jsonb, i tsquery, k int);
alter table t replica identity full;
insert into t select '<a/>', '[1, 2]', '(1,2),(3,4)', '<(0,0),1>', '[(0,0),(1,1)]', '((0,0),(1,1),(1,0))', '{1,2,3}',
 '[(0,0),(1,1)]', '{"(1,2)",NULL}', '{"a":1.0}', 'a & !b', i % 3 from generate_series(1, 9) i
--- live
update t set k = 10 where ctid = (select min(ctid) from t)
--- stream
delete from t where ctid = (select max(ctid) from t)
update t set x = '<b/>', h = '{"a":1.00}' where k = 1
update t set a = null, g = null, b = '<(0,0),2>' where k = 2
delete from t where k = 10

=== s28_full_equal_but_not_the_same
--- source
create extension if not exists citext schema public;
create table t (n numeric, f float8, i interval, c public.citext, b bpchar(4), z numeric[]);
alter table t replica identity full;
insert into t values (1.0, 0, '1 day', 'Ab', 'x', '{1.0}'), (1.00, '-0', '24:00', 'aB', 'x ', '{1.00}'),
 (1, 0, '24 hours', 'ab', 'x', '{1}'), ('NaN', 'NaN', null, '', '', '{NULL}'), ('NaN', 'NaN', null, '', '', '{NULL}')
--- live
update t set n = 1.000 where f::text = '-0'
--- stream
delete from t where n::text = '1.0'
update t set c = 'AB' where c::text = 'ab'
delete from t where ctid = (select min(ctid) from t where n = 'NaN')
update t set n = 2.50, i = '48:00' where n::text = '1.000'
update t set n = 2.5, i = '2 days', z = '{1.000}' where n::text = '2.50'

=== s28_full_with_key
--- source
create table t (id int primary key, v text, j json, big text);
alter table t replica identity full; alter table t alter big set storage external;
insert into t select i, 'v', '{}', repeat(md5(i::text), 200) from generate_series(1, 20) i
--- live
update t set v = 'live' where id < 5
update t set id = id + 100 where id = 6
--- stream
update t set id = id + 200, j = '{"x":1}' where id < 4
delete from t where id = 10
begin; update t set big = null where id = 11; update t set id = 11 + 300 where id = 11; commit
begin; delete from t where id = 12; insert into t values (12, 'new', null, 'short'); update t set v = 'n' where id = 12;
 commit

=== s28_full_toast_without_key
--- source
create table t (a int, big text, other text);
alter table t replica identity full;
alter table t alter big set storage external, alter other set storage external;
insert into t select i % 3, repeat(md5((i % 2)::text), 200), repeat(md5(i::text), 150) from generate_series(1, 8) i;
insert into t values (1, null, null), (1, repeat('q', 5000), null), (1, repeat('q', 5000), null)
--- live
update t set a = a + 10 where other is not null
--- stream
update t set a = 20 where ctid = (select max(ctid) from t)
begin; update t set a = 30 where a = 11; update t set other = null where a = 30; update t set a = 31 where a = 30; commit
delete from t where ctid = (select min(ctid) from t where big is not null)

=== s29_using_index
--- source
create table t (id int primary key, code text not null, other int not null, v text);
create unique index t_code on t (code); create unique index t_other on t (other);
alter table t replica identity using index t_code;
insert into t select i, 'c' || i, i * 10, 'v' from generate_series(1, 40) i
--- live
update t set code = 'd' || id where id < 5
update t set id = id + 100 where id = 6
delete from t where id = 7
--- stream
update t set v = 'w' where id < 10
begin; update t set code = 'tmp' where id = 11; update t set code = 'c11' where id = 12;
 update t set code = 'c12' where id = 11; commit
begin; alter table t replica identity using index t_other; update t set other = other + 1 where id = 20;
 update t set code = 'e', v = 'x' where id = 20; update t set id = -20 where id = 20; commit
update t set other = -other where id between 21 and 25
delete from t where id = 26
alter table t replica identity using index t_code; update t set code = code || '!' where id > 30

=== s29_identity_changes
The target keeps the setting of the time of the clone.
--- source
create table t (id int primary key, u int not null unique, v text, j json);
insert into t select i, i, 'v', '{}' from generate_series(1, 40) i
--- live
update t set v = 'live' where id < 5
--- stream
begin; update t set v = 'd' where id = 10; alter table t replica identity full; update t set v = 'f' where id = 10;
 update t set id = 1010 where id = 10; delete from t where id = 11;
 alter table t replica identity using index t_u_key; update t set u = -u where id = 12; update t set id = -12 where id = 12;
 alter table t replica identity default; update t set u = 99 where id = 13; update t set id = 99 where id = 13; commit
alter table t replica identity full; update t set u = u + 1000, j = null where id between 20 and 30
delete from t where id = 31
alter table t replica identity default
--- differs catalog

=== s36_only_key_columns
--- source
create table t (a int, b text, primary key (a, b)); create table one (a int primary key);
insert into t select i, 'k' from generate_series(1, 9) i; insert into one select generate_series(1, 9)
--- live
update t set a = a
update one set a = a + 100 where a < 4
--- stream
update one set a = a
begin; update t set b = 'l' where a = 1; update t set b = 'k' where a = 1; delete from t where a = 2;
 insert into t values (2, 'k'); commit
delete from one where a = 9

=== s36_no_writable_column_but_the_key
--- source
create table t (id int generated always as identity primary key, twice int generated always as (id * 2) stored);
insert into t select from generate_series(1, 5)
--- stream
insert into t default values
update t set id = default where id = 2
delete from t where id = 1
update t set id = default where id = 3

=== equal_keys
Keys that change only in how they are spelled.
--- source
create extension if not exists citext schema public;
create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table k_citext (k public.citext primary key, v int, big text); create table k_num (k numeric primary key, v int, big text);
create table k_ci (k text collate ci primary key, v int, big text); create table k_float (k float8 primary key, v int, big text);
create table k_interval (k interval primary key, v int, big text); create table k_json (k jsonb primary key, v int, big text);
create table k_nums (k numeric[] primary key, v int, big text); create table k_range (k numrange primary key, v int, big text);
create table k_two (a public.citext, k numeric, v int, big text, primary key (a, k));
alter table k_citext alter big set storage external; alter table k_num alter big set storage external;
insert into k_citext values ('abc', 1, repeat('b', 5000)), ('def', 2, repeat('c', 5000)), ('ghi', 3, null);
insert into k_num values (1.0, 1, repeat('b', 5000)), (2.0, 2, repeat('c', 5000)), (3.0, 3, null);
insert into k_ci values ('abc', 1), ('def', 2), ('ghi', 3); insert into k_float values (0, 1), (1, 2), ('NaN', 3);
insert into k_interval values ('1 day', 1), ('2 days', 2); insert into k_json values ('1.0', 1), ('{"a":1.0}', 2);
insert into k_nums values ('{1.0}', 1), ('{NULL,2.0}', 2); insert into k_range values ('[1.0,2.0)', 1), ('empty', 2);
insert into k_two values ('a', 1.0, 1), ('b', 2.0, 2)
--- live
update k_citext set k = 'ABC' where v = 1
update k_num set k = 1.00 where v = 1
update k_ci set k = 'ABC' where v = 1
update k_float set k = '-0' where v = 1
update k_interval set k = '24:00' where v = 1
update k_json set k = '1.00' where v = 1
begin; update k_nums set k = '{1.00}' where v = 1; update k_nums set k = '{1.000}' where v = 1; commit
update k_range set k = '[1.00,2.00)' where v = 1
update k_two set a = 'A', k = 1.00 where v = 1
begin; update k_citext set k = 'Abc' where v = 1; update k_citext set k = 'aBC', v = 11 where v = 1; commit
begin; delete from k_num where v = 2; insert into k_num values (2.00, 22); commit
--- stream
update k_citext set k = 'DEF' where v = 2
begin; update k_citext set k = 'def', v = 21 where v = 2; update k_citext set v = 22 where v = 21; commit
begin; delete from k_citext where v = 3; insert into k_citext values ('GHI', 4, 'n'); update k_citext set k = 'gHi' where v = 4;
 commit
begin; update k_num set k = 1.000 where v = 1; update k_num set v = 12 where v = 1; update k_num set k = 1 where v = 12; commit
begin; delete from k_num where k = 3; insert into k_num values (3.0, 30); delete from k_num where k = 3;
 insert into k_num values (3.00, 31); commit
begin; update k_ci set k = 'DEF' where v = 2; update k_ci set k = 'Def', v = 20 where v = 2; delete from k_ci where v = 3;
 insert into k_ci values ('GHI', 3); commit
delete from k_ci where v = 1
update k_float set k = 0, v = 10 where v = 1
update k_float set k = 'NaN', v = 30 where v = 3
update k_interval set k = '48 hours', v = 3 where v = 2
delete from k_interval where v = 1
update k_json set k = '{"a":1.00}', v = 3 where v = 2
delete from k_json where v = 1
update k_nums set k = '{NULL,2.00}' where v = 2
update k_two set a = 'B' where v = 2
delete from k_two where v = 1
delete from k_range where v = 2
update k_citext set k = upper(k), v = v + 100

=== keys_of_every_type
--- source
create type mood as enum ('a', 'b', 'c'); create domain positive as int check (value > 0);
create domain codes as text[]; create type pair as (x int, y text); create type spans as range (subtype = int8);
create table k_enum (k mood primary key, v int); create table k_domain (k positive primary key, v int);
create table k_codes (k codes primary key, v int); create table k_pair (k pair primary key, v int);
create table k_spans (k spans primary key, v int); create table k_enums (k mood[] primary key, v int);
create table k_char (k "char" primary key, v int); create table k_name (k name primary key, v int);
create table k_bpchar (k char(7) primary key, v int); create table k_bit (k bit(5) primary key, v int);
create table k_varbit (k varbit primary key, v int); create table k_bytea (k bytea primary key, v int);
create table k_inet (k inet primary key, v int); create table k_uuid (k uuid primary key, v int);
create table k_tstz (k timestamptz primary key, v int); create table k_time (k timetz primary key, v int);
create table k_money (k money primary key, v int); create table k_bool (k bool primary key, v int);
create table k_oid (k oid primary key, v int); create table k_mac (k macaddr8 primary key, v int);
create table k_lsn (k pg_lsn primary key, v int); create table k_ts (k tsvector primary key, v int);
create table k_dates (k daterange primary key, v int); create table k_int2 (k int2 primary key, v int);
insert into k_enum values ('a', 1), ('b', 2); insert into k_domain values (1, 1), (2, 2);
insert into k_codes values ('{"a,b",NULL}', 1), ('{}', 2); insert into k_pair values ('(1,"a b")', 1), ('(,)', 2);
insert into k_spans values ('[1,5)', 1), ('empty', 2); insert into k_enums values ('{a,b}', 1), ('{NULL}', 2);
insert into k_char values ('', 1), ('x', 2); insert into k_name values ('', 1), ('a"b', 2);
insert into k_bpchar values ('ab', 1), ('', 2); insert into k_bit values ('10101', 1), ('00000', 2);
insert into k_varbit values ('', 1), ('1', 2); insert into k_bytea values ('', 1), ('\x00ff27', 2);
insert into k_inet values ('10.0.0.1/8', 1), ('::1', 2); insert into k_uuid values (md5('1')::uuid, 1), (md5('2')::uuid, 2);
insert into k_tstz values ('infinity', 1), ('4713-01-01 BC', 2); insert into k_time values ('24:00+14', 1), ('00:00-12', 2);
insert into k_money values ('-1.5', 1), ('1000000', 2); insert into k_bool values (true, 1), (false, 2);
insert into k_oid values (4294967295, 1), (0, 2); insert into k_mac values ('08:00:2b:01:02:03', 1), ('00:00:00:00:00:00:00:00', 2);
insert into k_lsn values ('FFFFFFFF/0', 1), ('0/1', 2); insert into k_ts values ('a:1A', 1), ('', 2);
insert into k_dates values ('[2020-01-01,infinity)', 1), ('(,)', 2); insert into k_int2 values (-32768, 1), (0, 2)
--- live
do $$ declare t regclass; begin for t in select oid::regclass from pg_class where relkind = 'r' and relname ~ '^k_' and
 relnamespace = current_schema()::regnamespace loop execute format('update %s set v = v + 10 where v = 1', t); end loop; end $$
--- stream
do $$ declare t regclass; begin for t in select oid::regclass from pg_class where relkind = 'r' and relname ~ '^k_' and
 relnamespace = current_schema()::regnamespace loop execute format('create temp table one as select k from %s where v = 11;
 delete from %1$s where v = 11; update %1$s set k = (select k from one) where v = 2; insert into %1$s select k, 50 from one
 on conflict do nothing; update %1$s set v = v - 1', t); drop table one; end loop; end $$
do $$ declare t regclass; begin for t in select oid::regclass from pg_class where relkind = 'r' and relname ~ '^k_' and
 relnamespace = current_schema()::regnamespace loop execute format('delete from %s where ctid = (select min(ctid) from %1$s)', t);
 end loop; end $$

=== long_keys
A key that is itself stored out of line, and rows that no longer fit a page.
--- source
create table t (k text primary key, n int, a text, b text);
alter table t alter k set storage external, alter a set storage external, alter b set storage main;
insert into t select (select string_agg(md5((i * 100 + j)::text), '') from generate_series(1, 60) j), i,
 repeat(md5(i::text), 100), repeat(md5(i::text), 300) from generate_series(1, 10) i
--- live
update t set n = n + 100
--- stream
update t set n = n + 1 where n < 104
begin; update t set k = 'short' || n where n = 106; update t set n = -1 where k = 'short106'; commit
begin; update t set b = null where n = 107; update t set k = reverse(k) where n = 107; update t set n = 207 where n = 107; commit
delete from t where n = 108

=== insert_only
No identity: updates and deletes stay possible on the source and are not carried.
--- source
create table t (a int, b text);
create table nothing (id int primary key, v text); alter table nothing replica identity nothing;
create table g (a int, b int generated always as (a + 1) stored, c int generated always as identity);
create table deferred (id int primary key deferrable initially deferred, v text);
insert into t select i, 'x' from generate_series(1, 10) i; insert into nothing values (1, 'a'), (2, 'b');
insert into g (a) values (1); insert into deferred values (1, 'a')
--- live
update t set b = 'y' where a = 1
insert into t select i, 'l' from generate_series(11, 200) i
insert into g (a) select i from generate_series(2, 200) i
insert into deferred values (2, 'b')
--- stream
delete from t where a = 2
insert into t values (300, null), (300, null)
insert into nothing values (3, 'c') on conflict (id) do update set v = 'd'
insert into nothing values (3, 'c') on conflict (id) do update set v = 'd'
insert into g (a) values (null)
update deferred set id = 3 - id
insert into deferred values (3, 'c')
--- differs
t nothing deferred
--- query
select count(*) filter (where b <> 'y') >= 198, count(*) filter (where a = 300) from t
select count(*) from nothing
select count(*) from deferred
