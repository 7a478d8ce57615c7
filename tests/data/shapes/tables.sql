=== s34_partitions
--- source
create table l (id int, k int, v text, primary key (id, k)) partition by list (k);
create table l_1 partition of l for values in (1); create table l_other partition of l default;
create table l_2 (v text, junk int, k int not null, id int not null); alter table l_2 drop column junk;
alter table l attach partition l_2 for values in (2);
create table r (at date, id int, v text, primary key (at, id)) partition by range (at);
create table r_2020 partition of r for values from (minvalue) to ('2021-01-01') partition by list (id);
create table r_2020_a partition of r_2020 for values in (1, 2, 3); create table r_2020_b partition of r_2020 default;
create table r_2021 partition of r for values from ('2021-01-01') to (maxvalue) partition by hash (id);
create table r_2021_0 partition of r_2021 for values with (modulus 2, remainder 0);
create table r_2021_1 partition of r_2021 for values with (modulus 2, remainder 1);
create table h (id int primary key, v text) partition by hash (id);
create table h_0 partition of h for values with (modulus 3, remainder 0); create table h_1 partition of h for values with (modulus 3, remainder 1);
create table h_2 partition of h for values with (modulus 3, remainder 2); create index h_v on h (v); create index only_1 on h_1 (v, id);
create table empty_root (id int primary key) partition by range (id);
create table expr (id int not null, v text) partition by range ((id % 10));
create table expr_low partition of expr (primary key (id)) for values from (0) to (5); create table expr_high partition of expr (primary key (id)) for values from (5) to (10);
create table mixed (id int, v text) partition by list (id); create table mixed_1 partition of mixed for values in (1);
alter table mixed_1 replica identity full; create table mixed_2 partition of mixed for values in (2);
insert into l select i, 1 + i % 3, 'v' from generate_series(1, 90) i;
insert into r select date '2020-06-01' + i * 30, i % 7, 'v' || i from generate_series(1, 30) i;
insert into h select i, 'v' from generate_series(1, 50) i; insert into expr select i, 'e' from generate_series(1, 30) i;
insert into mixed select 1 + i % 2, 'm' from generate_series(1, 10) i; analyze l, r, h, expr, mixed
--- live
update l set k = k % 3 + 1 where id < 20
update l_2 set v = 'direct' where id < 40
update h set id = id + 1000 where id < 10
update expr set id = id + 1000 where id < 5
insert into r select date '2019-01-01' + i, i, 'live' from generate_series(1, 150) i
--- stream
begin; update l set k = 7, v = 'default' where id between 20 and 25; update l set k = 1 where id = 20; delete from l where id = 21;
 insert into l values (21, 1, 'again'); commit
update r set at = at + 400 where id = 1
update r set id = id + 100 where at < '2020-12-01'
delete from r where id = 102
truncate l_1
insert into l values (500, 1, 'after')
truncate r_2021
insert into r values ('2022-01-01', 1, 'x'), ('2022-01-01', 2, 'y')
update h set id = id + 500, v = 'm' where id between 20 and 21
delete from h where id = 30
update expr set id = id + 500 + 5 where id between 11 and 14
update mixed set v = 'n' where id = 1
delete from mixed where id = 1 and ctid = (select min(ctid) from mixed_1)
insert into mixed values (2, 'n')
begin; truncate h; insert into h select i, 't' from generate_series(1, 5) i; update h set v = 'u' where id = 3; commit

=== s34_inheritance
--- source
create table p (id int primary key, v text); create table c (w text) inherits (p); create table d (primary key (id)) inherits (c);
create table o (x int); create table two (id int primary key) inherits (p, o);
create table keyed (primary key (id)) inherits (p);
insert into p values (1, 'p'), (2, 'p'); insert into c values (1, 'c', 'w'), (3, 'c', 'w'); insert into d values (1, 'd', 'w');
insert into two values (1, 'two', 5); insert into o values (9); insert into keyed values (1, 'k'), (2, 'k'); alter table c replica identity full
--- live
update p set v = v || '!' where id = 1
insert into c select i, 'live', 'w' from generate_series(10, 150) i
--- stream
delete from only p where id = 2
update p set id = 100 where id = 1 and tableoid = 'keyed'::regclass
delete from p where id = 3
insert into d values (2, 'n', 'n')
update d set w = 'x'
truncate only c
insert into c values (5, 'after', 'w')
--- differs
o
--- query
select tableoid::regclass::text, id, v from p order by 1, 2

=== row_types
Tables without a guard column.
--- source
create type kind as (a int, b text); create table typed of kind (primary key (a)); create table typed_full of kind; alter table typed_full replica identity full;
create table rt (id int primary key, v text); create table uses (id int primary key, r rt, rs rt[]); create domain drt as rt;
create table uses_domain (id int primary key, d drt);
insert into typed values (1, 'a'), (2, 'b'); insert into typed_full values (1, 'a'), (1, 'a');
insert into rt select i, 'v' from generate_series(1, 20) i; insert into uses select id, rt, array[rt] from rt; insert into uses_domain select id, rt from rt
--- live
update rt set v = 'w' where id < 4
update uses set r = row(5, 'q')::rt where id = 2
insert into typed select i, 'live' from generate_series(3, 150) i
--- stream
update typed set a = a + 1000 where a < 3
delete from typed_full where ctid = '(0,1)'
begin; delete from rt where id = 5; insert into rt values (5, 'new'); update rt set id = 500 where id = 5; commit
update uses set rs = rs || r, r = null where id < 5
update uses_domain set d = null where id = 1
delete from uses where id = 10
--- target
insert into rt values (2000, 'n')

=== kinds
--- source
create unlogged table fleeting (id int primary key, v text); insert into fleeting values (1, 'u');
create table base (id int primary key, v text, n int); insert into base select i, 'v', i from generate_series(1, 50) i;
create view plain as select id, n * 2 as d from base where n > 10; create view over_plain with (security_barrier) as select * from plain where d > 30 with local check option;
create materialized view m1 as select count(*) n, sum(d) from over_plain; create materialized view a_on_m1 as select n + 1 as n from m1;
create view between_m as select * from a_on_m1; create materialized view a0 as select * from between_m with data; create unique index a0_n on a0 (n);
create materialized view empty_one as select 1 as x with no data;
create recursive view counted (n) as select 1 union all select n + 1 from counted where n < 5;
create function later() returns bigint language sql stable as 'select n from a0'; create materialized view by_function as select 1 as one, base.id from base where id < 3;
create view cyclic as select id from base group by id having count(v) > 0
--- live
update fleeting set v = 'w'
create temp table mine (id int primary key); insert into mine values (1)
update base set n = n + 100 where id < 20
--- stream
insert into base values (100, 'n', 5)
update base set id = 200, v = 'w' where id = 2
delete from base where id = 3
--- differs
fleeting
--- query
select count(*) from plain
select count(*) from over_plain
select count(*) from counted
select relname, relispopulated from pg_class where relkind = 'm' and relnamespace = current_schema()::regnamespace order by 1
--- target
refresh materialized view m1
refresh materialized view concurrently a0
insert into plain (id) values (5000)

=== foreign_tables superuser
--- source
create extension if not exists postgres_fdw schema public; create server far foreign data wrapper postgres_fdw options (host 'nowhere', dbname 'x');
create user mapping for public server far options (user 'u', password 'secret'); create foreign table away (id int, v text options (column_name 'w')) server far;
create table local_root (id int, v text) partition by list (id); create table local_1 partition of local_root (primary key (id)) for values in (1);
insert into local_root values (1, 'a')
--- live
update local_1 set v = 'b'
--- stream
insert into local_root values (1, 'c') on conflict do nothing
update local_root set v = 'd'
