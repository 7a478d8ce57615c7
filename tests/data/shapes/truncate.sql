=== s35_several
--- source
create table a (id serial primary key, v text); create table b (id int generated always as identity primary key, a int references a, v text);
create table p (id serial primary key); create table c (id serial primary key, p int references p); create table untouched (id serial primary key, v text);
create table keyless (v text); create table full_id (v text); alter table full_id replica identity full;
insert into a (v) select 'v' from generate_series(1, 30); insert into b (a, v) select i, 'v' from generate_series(1, 30) i; insert into p select from generate_series(1, 9); insert into c (p) select generate_series(1, 9);
insert into untouched (v) values ('x'); insert into keyless values ('k'); insert into full_id values ('f'), ('f')
--- stream
begin; truncate a, b restart identity; insert into a (v) select 'again' from generate_series(1, 5); insert into b (a, v) select i, 'again' from generate_series(1, 5) i; commit
begin; insert into p values (100); update p set id = 101 where id = 100; truncate p cascade; insert into p values (1), (100); insert into c (p) values (1); commit
begin; insert into a (v) values ('lost'); savepoint s; truncate a, b; rollback to s; update a set v = 'kept' where id = 1; commit
begin; truncate b; truncate b; insert into b (a, v) values (1, 'x'); truncate b; insert into b (a, v) values (2, 'y'); commit
begin; truncate keyless; insert into keyless values ('n'), ('n'); truncate full_id; insert into full_id values ('g'), ('g'); delete from full_id where ctid = (select max(ctid) from full_id); commit
begin; update untouched set v = 'y'; truncate p, c restart identity cascade; update untouched set v = 'z'; commit
insert into p default values
--- target
insert into a (v) values ('next')
insert into b (a, v) values (1, 'next')
insert into p default values

=== s35_while_copying
--- source
create table t (id int primary key, v text); create table u (id int primary key, v text); create table part (id int primary key, v text) partition by hash (id);
create table part_0 partition of part for values with (modulus 2, remainder 0); create table part_1 partition of part for values with (modulus 2, remainder 1);
insert into t select i, 'v' from generate_series(1, 100) i; insert into u select i, 'v' from generate_series(1, 100) i; insert into part select i, 'v' from generate_series(1, 100) i
--- live
begin; insert into t values (1000, 'before'); truncate t; insert into t values (1, 'after'), (2, 'after'); commit
begin; truncate u; insert into u select i, 'x' from generate_series(1, 120) i; truncate u; commit
insert into u values (5, 'end')
truncate part_0
begin; truncate part; insert into part select i, 'n' from generate_series(1, 10) i; commit
--- stream
begin; delete from t where id = 1; truncate t; insert into t values (1, 'last'); commit

=== s35_referenced_from_outside superuser
The target's own table references a truncated one.
--- source
create table a (id int primary key, v text); insert into a values (1, 'x'), (2, 'y')
--- between
create table outside (id int primary key, a int references a); insert into outside values (1, 1)
--- stream
begin; truncate a; insert into a values (1, 'z'); commit
--- differs
outside catalog
