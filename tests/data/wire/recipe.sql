-- What the golden messages in this folder were captured from; run by scripts/capture-wire in an empty database, in one
-- session. Works on PostgreSQL 12 and later. A new kind of message or value gets a transaction of its own at the end.
\set ON_ERROR_STOP on
set client_encoding = utf8;
set client_min_messages = warning;
set search_path = public;

-- Tables: every replica identity.
create table plain (id int primary key, name text not null, note varchar(20), amount numeric(10, 2));
create table by_index (id int primary key, code text not null constraint by_index_code unique, remark text);
alter table by_index replica identity using index by_index_code;
create table full_row (id int, v text);
alter table full_row replica identity full;
create table nothing (id int, v text);
alter table nothing replica identity nothing;

-- Types that are announced by a Type message; a domain goes by the name of its base type.
create type mood as enum ('calm', 'keen');
create type pair as (x int, y text);
create domain positive as int check (value > 0);
create domain "Étiquette" as mood;
create table typed (id int primary key, m mood, p pair, d positive, e "Étiquette", ms mood[],
                    doubled int generated always as (id * 2) stored);

-- TOAST: stored out of line, not compressed, so that 2100 bytes are enough.
create table toast (id int primary key, big text, n int);
alter table toast alter column big set storage external;
create table toast_full (id int, big text, n int);
alter table toast_full alter column big set storage external;
alter table toast_full replica identity full;
create table toast_key (code text not null constraint toast_key_code unique, n int);
alter table toast_key alter column code set storage external;
alter table toast_key replica identity using index toast_key_code;

-- Names: quoted, of 63 bytes, Cyrillic.
create schema "Odd ""schema"", дом";
create table "Odd ""schema"", дом"."Таблица.с.точками и ""кавычками"""
  ("Ключ" int primary key, "a""b'c\d" text, "select" text);
create table n23456789_123456789_123456789_123456789_123456789_123456789_123
  (k23456789_123456789_123456789_123456789_123456789_123456789_123 int primary key);
create table "тридцать_одна_кириллическая_буква" (id int primary key);

-- Truncation.
create table parent (id int primary key generated always as identity);
create table child (id int primary key, parent_id int references parent);

-- The two publications that pgbaton makes: the second for tables whose UPDATE would otherwise fail.
create publication wire_all for table plain, by_index, full_row, typed, toast, toast_full, toast_key,
  "Odd ""schema"", дом"."Таблица.с.точками и ""кавычками""",
  n23456789_123456789_123456789_123456789_123456789_123456789_123,
  "тридцать_одна_кириллическая_буква", parent, child;
create publication wire_inserts for table nothing with (publish = 'insert, truncate');
-- Captured once more with binary values.
create publication wire_binary for table full_row, typed;
select pg_create_logical_replication_slot('pgbaton_wire_capture', 'pgoutput', true);

-- Replica identity default: insert with NULL and the empty string, update without and with a changed key, delete.
begin;
insert into plain values (1, 'Ada', null, 10.50), (2, '', '', null);
update plain set amount = 11 where id = 1;
update plain set id = 3, name = 'Grace' where id = 1;
delete from plain where id = 2;
commit;

-- Replica identity index: the old part holds the index's columns, the rest is null.
begin;
insert into by_index values (1, 'one', 'r');
update by_index set remark = null where id = 1;
update by_index set code = 'uno' where id = 1;
delete from by_index where id = 1;
commit;

-- Replica identity full.
begin;
insert into full_row values (1, 'a'), (2, null);
update full_row set v = 'b' where id = 1;
update full_row set v = '' where id = 2;
delete from full_row where id = 2;
commit;

-- Replica identity nothing: updates and deletes are not published.
begin;
insert into nothing values (1, 'a');
update nothing set v = 'b';
delete from nothing;
commit;

-- Enum, composite, domains, array of an enum; the generated column is not sent.
begin;
insert into typed values (1, 'calm', (7, 'a b'), 5, 'keen', '{calm,keen}'), (2, null, (null, ''), null, null, '{}');
commit;

-- Unchanged TOAST: with the key as it was, with a new key, and replaced.
begin;
insert into toast values (1, repeat('t', 2100), 0);
update toast set n = 1;
update toast set id = 2;
update toast set big = 'short';
commit;

-- Unchanged TOAST under replica identity full: the old part holds the value, the new part does not.
begin;
insert into toast_full values (1, repeat('f', 2100), 0);
update toast_full set n = 1;
commit;

-- A TOASTed key is sent as old part though it did not change.
begin;
insert into toast_key values (repeat('k', 2100), 0);
update toast_key set n = 1;
delete from toast_key;
commit;

-- Names.
begin;
insert into "Odd ""schema"", дом"."Таблица.с.точками и ""кавычками""" values (1, 'слово', E'tab\t "quote" \\ ''');
insert into n23456789_123456789_123456789_123456789_123456789_123456789_123 values (1);
insert into "тридцать_одна_кириллическая_буква" values (1);
commit;

-- Truncate: one table, two tables, with each option and with both.
truncate plain;
truncate plain, full_row;
truncate parent cascade;
truncate parent, child restart identity;
truncate parent restart identity cascade;

-- Messages inside a transaction, outside of one, and without anything in them.
begin;
select pg_logical_emit_message(true, 'wire', 'inside');
insert into full_row values (3, 'c');
commit;
select pg_logical_emit_message(false, 'wire', 'outside');
select pg_logical_emit_message(true, '', '');

-- A transaction that came from elsewhere.
select pg_replication_origin_create('pgbaton_wire_capture');
select pg_replication_origin_session_setup('pgbaton_wire_capture');
begin;
select pg_replication_origin_xact_setup('16/B374D848', '2024-02-29 12:00:00+00');
insert into full_row values (4, 'from elsewhere');
commit;
select pg_replication_origin_session_reset();

-- DDL between rows of one transaction: the relation is described anew. A row rolled back to a savepoint is not sent.
begin;
insert into full_row values (5, 'before');
savepoint s;
insert into full_row values (6, 'rolled back');
rollback to s;
alter table full_row add column added bool default true;
insert into full_row values (7, 'after', false);
commit;

-- Rolled back, and larger than the server's memory for decoding: PostgreSQL 18 reports the small subtransaction as a
-- Stream Abort though nothing is streamed (see StreamAbort in message.hpp); other majors send nothing.
do $$ begin
  set logical_decoding_work_mem = '64kB';
exception when undefined_object then null;  -- before 13
end $$;
begin;
savepoint s;
insert into plain values (100, 'sub');
release s;
insert into plain select i, repeat('x', 100) from generate_series(101, 2000) i;
rollback;
insert into plain values (4, 'last');
