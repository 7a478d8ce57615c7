=== s42_orphans
--- source
create table a (id int primary key); create table b (id int primary key, a int references a);
insert into a values (1); insert into b values (1, 1); set session_replication_role = replica; insert into b values (2, 99); reset session_replication_role
--- live
insert into a values (2); insert into b values (3, 2)
--- stream
delete from b where id = 1; delete from a where id = 1
--- query
select count(*) from b
--- refused
insert into b values (10, 98)
--- differs catalog

=== s59_rotation
Values rotate among rows; nothing is in the way of a state that the source had.
--- source
create extension if not exists btree_gist schema public;
create table u (id int primary key, x int unique, y int, v text, constraint yy unique (y) deferrable initially deferred);
create table ui (id int primary key, x int, constraint ui_x unique (x) deferrable initially immediate);
create table n (id int primary key, x int, y text); create unique index n_x on n (x) where y is not null; create unique index n_y on n (lower(y));
create table e (id int primary key, r int4range, exclude using gist (r with &&));
create table ed (id int primary key, k int, r int4range, constraint ed_r exclude using gist (k with =, r with &&) deferrable initially deferred);
create table pk (id int, v text, constraint pk_id primary key (id) deferrable initially deferred); alter table pk replica identity full;
create table two (id int primary key, x int unique, y int unique, z text not null check (z <> ''));
insert into u select i, i, i, 'v' from generate_series(1, 30) i; insert into ui select i, i from generate_series(1, 30) i;
insert into n select i, i, 'y' || i from generate_series(1, 30) i; insert into e select i, int4range(i * 10, i * 10 + 10) from generate_series(1, 30) i;
insert into ed select i, 1, int4range(i * 10, i * 10 + 10) from generate_series(1, 30) i; insert into pk select i, 'v' || i from generate_series(1, 30) i;
insert into two select i, i, i, 'z' from generate_series(1, 30) i
--- live
begin; update u set x = -1 where id = 1; update u set x = 1 where id = 2; update u set x = 2 where id = 1; commit
update u set y = y % 30 + 1
begin; set constraints all deferred; update ui set x = 2 where id = 1; update ui set x = 3 where id = 2; update ui set x = 1 where id = 3; commit
begin; delete from u where id = 5; insert into u values (105, 5, 6, 'new'); commit
begin; update e set r = '[5000,5001)' where id = 1; update e set r = '[10,20)' where id = 2; update e set r = '[20,30)' where id = 1; commit
update pk set id = 31 - id
--- stream
begin; update u set x = -1 where id = 11; update u set x = 11 where id = 12; update u set x = 12 where id = 13; update u set x = 13 where id = 11; commit
begin; update u set y = 31 - y; update u set y = 31 - y where id < 10; update u set y = 31 - y where id < 10; commit
update ui set x = x % 30 + 1
begin; set constraints all deferred; update ui set x = x + 1 where id <= 10; update ui set x = x - 1 where id <= 10; update ui set x = 31 - x; commit
begin; update n set y = null where id = 1; update n set x = 1 where id = 2; update n set x = 2 where id = 1; update n set y = 'Y1' where id = 1; commit
begin; update n set y = 'tmp' where id = 5; update n set y = 'Y5' where id = 6; update n set y = 'y6' where id = 5; commit
update ed set r = int4range(310 - lower(r), 320 - lower(r))
begin; update e set r = 'empty' where id = 10; update e set r = '[100,110)' where id = 11; update e set r = '[110,120)' where id = 10; commit
begin; delete from e where id = 12; insert into e values (112, '[120,125)'), (113, '[125,130)'); commit
begin; update pk set id = id + 1; update pk set id = id - 1, v = v || '_'; insert into pk values (40, 'n'); delete from pk where id = 7; insert into pk values (7, 'again'); commit
begin; update two set x = -x, y = -y; update two set x = 1 + (-x) % 30, y = 30 + y; update two set y = y + 1; commit
begin; update two set x = null where id = 1; update two set x = 2, y = null where id = 2; update two set x = 3 where x is null; commit
--- query
select count(distinct y), count(*) from u
select count(distinct id), count(*) from pk
--- refused
insert into u values (1000, 1, 9999, 'dup x')
insert into u values (1000, 9999, 10, 'dup y')
insert into ed values (1000, 1, '[100,105)')
insert into pk values (10, 'dup')
insert into ui values (1000, 5)
insert into two values (1000, 1000, 1000, '')

=== foreign_keys
--- source
create table a (id int primary key, v text); create table b (id int primary key, a int references a on delete cascade on update cascade);
create table c (id int primary key, b int references b on delete set null, self int, constraint late foreign key (self) references c deferrable initially deferred);
create table x (id int primary key, y int); create table y (id int primary key, x int references x); alter table x add constraint x_y foreign key (y) references y deferrable initially deferred;
create table pa (id int, k int, primary key (id, k)) partition by list (k); create table pa_1 partition of pa for values in (1); create table pa_2 partition of pa for values in (2);
create table refs_p (id int primary key, pid int, k int, foreign key (pid, k) references pa); create table rp (id int, a int references a, primary key (id)) partition by hash (id);
create table rp_0 partition of rp for values with (modulus 2, remainder 0); create table rp_1 partition of rp for values with (modulus 2, remainder 1);
create table nv (id int primary key, a int); insert into nv values (1, 77); alter table nv add constraint nv_a foreign key (a) references a not valid;
insert into a select i, 'v' from generate_series(1, 20) i; insert into b select i, i from generate_series(1, 20) i; insert into c select i, i, i from generate_series(1, 20) i;
begin; insert into x values (1, 1); insert into y values (1, 1); commit; insert into pa select i, 1 + i % 2 from generate_series(1, 10) i;
insert into refs_p select i, i, 1 + i % 2 from generate_series(1, 10) i; insert into rp select i, i from generate_series(1, 20) i
--- live
delete from rp where a in (1, 2)
delete from a where id = 1
update a set id = 2000 where id = 5 and not exists (select from rp where a = 5)
begin; insert into c values (100, null, 101); insert into c values (101, null, 100); commit
--- stream
begin; delete from rp where a = 3; delete from a where id = 3; insert into a values (3, 'again'); insert into b values (300, 3); commit
begin; set constraints all deferred; insert into x values (2, 2); insert into y values (2, 2); commit
begin; insert into a values (50, 'n'); insert into b values (50, 50); insert into rp values (50, 50); delete from rp where id = 50; delete from a where id = 50; commit
update pa set k = 3 - k where id = 10 and not exists (select from refs_p where pid = 10)
delete from refs_p where id < 4
delete from pa where id < 4
truncate a cascade
insert into a values (1, 'after'); insert into b values (1, 1)
--- refused
insert into b values (1000, 999)
insert into rp values (1000, 999)
insert into refs_p values (1000, 999, 1)
insert into nv values (1000, 999)
insert into x values (1000, 999)

=== checks
--- source
create function is_good(text) returns bool language sql immutable as $$ select $1 <> 'bad' $$;
create table t (id int primary key, v text not null check (is_good(v)), n int constraint n_small check (n < 100) no inherit, constraint either_way check (n > 0 or v = 'zero'));
create table nv (id int primary key, v text); insert into nv values (1, 'bad'); alter table nv add constraint good check (v <> 'bad') not valid;
create domain d as text constraint dd check (value <> 'bad') not null; create table dt (id int primary key, d d default 'x');
insert into t select i, 'v', i from generate_series(1, 20) i; insert into dt (id) values (1)
--- live
update t set v = 'zero', n = -1 where id = 3
--- stream
begin; update t set v = 'zero' where id = 4; update t set n = 0 where id = 4; commit
insert into dt values (2, 'y')
update nv set id = 1 where id = 1 and false
--- refused
insert into t values (1000, 'bad', 1)
insert into t values (1000, 'v', 100)
insert into t values (1000, 'v', 0)
insert into nv values (1000, 'bad')
insert into dt values (1000, null)

=== triggers_and_rules
What already ran on the source does not run again on the target.
--- source
create table t (id int primary key, v text, n int default 0); create table log (id serial primary key, what text);
create function note() returns trigger language plpgsql as $$ begin insert into log (what) values (tg_op || ' ' || coalesce(new.id, old.id)); return coalesce(new, old); end $$;
create function bump() returns trigger language plpgsql as $$ begin new.n := coalesce(new.n, 0) + 1; return new; end $$;
create function no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
create trigger note after insert or update or delete on t for each row execute function note(); create trigger bump before insert or update on t for each row execute function bump();
create trigger off before insert on t for each row execute function no(); alter table t disable trigger off;
create constraint trigger late after insert on t deferrable initially deferred for each row when (new.id < 0) execute function no();
create trigger stmt after update on t referencing new table as fresh for each statement execute function bump(); alter table t disable trigger stmt;
create table r (id int primary key, v text); create table r_copy (id int primary key, v text); create rule doubled as on insert to r do also insert into r_copy values (new.id, new.v) on conflict do nothing;
create rule kept as on delete to r where old.id = 1 do instead nothing; create view rv as select * from r; create rule rv_insert as on insert to rv do instead insert into r values (new.id, new.v);
create function vt() returns trigger language plpgsql as $$ begin insert into t values (new.id, new.v); return new; end $$; create view tv as select id, v from t; create trigger vt instead of insert on tv for each row execute function vt();
insert into t (id, v) select i, 'v' from generate_series(1, 10) i; insert into r values (1, 'a'), (2, 'b')
--- live
update t set v = 'w' where id < 4
insert into r values (3, 'c')
insert into tv values (100, 'by view')
--- stream
insert into t (id, v) values (11, 'x'), (12, 'y'); delete from t where id = 5
update t set id = 60 where id = 6
delete from r; insert into rv values (4, 'd')
begin; delete from t where id = 7; insert into t values (7, 'again', 0); commit
--- target
insert into t (id, v) values (1000, 'z')
insert into r values (1000, 'z')
insert into tv values (1001, 'z')
--- refused
insert into t (id) values (-1)

=== triggers_always
They fire on both sides: check names them. This one does the same to the same row.
--- source
create table t (id int primary key, v text); create function upper_v() returns trigger language plpgsql as $$ begin new.v := upper(new.v); return new; end $$;
create trigger up before insert or update on t for each row execute function upper_v(); alter table t enable always trigger up;
insert into t select i, 'v' from generate_series(1, 10) i
--- live
update t set v = 'w' where id < 4
--- stream
insert into t values (20, 'x')
update t set id = 21 where id = 20

=== row_security
--- source
create table t (id int primary key, who text, v text); alter table t enable row level security; create policy mine on t using (who = current_user) with check (who = current_user);
create policy readers on t for select to pg_monitor using (true); create table off (id int primary key); create policy unused on off using (false);
insert into t values (1, 'somebody', 'a'), (2, 'postgres', 'b'); insert into off values (1)
--- live
update t set v = 'w'
--- stream
insert into t values (3, 'nobody', 'c'); delete from t where id = 1; update t set id = 30 where id = 3
