"""What is drained: for each workload the tables of the source, and the backlog that is written once slots exist.

Every backlog ends with a row in bench_done, whose arrival on the target is the end of the measurement. Numbers are those
of PERF.md and of the goals; --scale multiplies rows and changes, so that ratios between them stay.
"""

import dataclasses
import os
from typing import Callable

from servers import BIN, run

MARKER = "create table bench_done (id int primary key);"
BIG_ROWS = 10_000_000


@dataclasses.dataclass
class Workload:
    name: str
    title: str
    goal: float  # built-in time ÷ ours, at least
    changes: int  # rows changed, at scale 1
    base: Callable  # (source, database, scale)
    backlog: Callable  # (source, database, scale)
    least_pairs: int = 0


def scaled(number, scale, least=100):
    return max(least, int(number * scale))


def in_transactions(source, database, count, size, declare, body):
    """body runs for i = 1 … count, committed after every `size`; the source's commits need not be durable one by one."""
    source.sql(database, f"""do $$ declare {declare} i bigint; begin
      for n in 1..{count} loop  -- n is an integer, whatever is declared
        i := n;
        {body}
        if i % {size} = 0 then commit; end if;
      end loop;
    end $$;""", options="-c synchronous_commit=off")


# --- w1: pgbench's own script

def tpcb_base(source, database, scale):
    rows = max(1, round(50 * scale))
    run([f"{BIN}/pgbench", "-i", "-q", "-s", str(rows), source.conninfo(database)])


def tpcb_backlog(source, database, scale):
    # A fixed seed: the same accounts in every run of the benchmark.
    environment = dict(os.environ, PGOPTIONS="-c synchronous_commit=off")
    run([f"{BIN}/pgbench", "-n", "-c", "4", "-t", str(scaled(50_000, scale)), "--random-seed=1", source.conninfo(database)], env=environment)


# --- w2: inserts into two tables, in transactions of 10

def insert_base(source, database, scale):
    for table in ("ins_a", "ins_b"):
        source.sql(database, f"create table {table} (id bigint primary key, a int, b text, c timestamptz);")


def insert_backlog(source, database, scale):
    in_transactions(source, database, scaled(500_000, scale), 5, "", """
        insert into ins_a values (i, i % 1000, repeat(md5(i::text), 2), now());
        insert into ins_b values (i, i % 1000, repeat(md5(i::text), 2), now());""")


# --- w3, w4: updates of one table of 10 M rows

def big_base(source, database, scale):
    source.sql(database, f"""create table big (id bigint primary key, a int, b text, c timestamptz);
      insert into big select i, 0, rpad(md5(i::text), 80, 'x'), '2020-01-01' from generate_series(1, {scaled(BIG_ROWS, scale)}) i;
      vacuum analyze big;""")


def update_key(source, database, count, key, size=100):
    in_transactions(source, database, count, size, "k bigint;", f"""
        k := {key};
        update big set a = a + 1, c = clock_timestamp() where id = k;""")


def uniform_backlog(source, database, scale):
    update_key(source, database, scaled(1_000_000, scale), f"1 + floor(random() * {scaled(BIG_ROWS, scale)})::bigint")


def twice_backlog(source, database, scale):
    """500 000 keys out of 10 M, each touched twice, the second time in another order."""
    keys = scaled(500_000, scale)
    step = scaled(BIG_ROWS, scale) // keys
    for multiplier in (7_368_787, 15_485_863):  # primes: i * p mod keys meets every key once
        update_key(source, database, keys, f"1 + (i * {multiplier} % {keys}) * {step}")


def hot_backlog(source, database, scale):
    update_key(source, database, scaled(1_000_000, scale), f"1 + floor(random() * {scaled(100_000, scale)})::bigint")


def huge_backlog(source, database, scale):
    source.sql(database, "update big set a = a + 1, c = clock_timestamp() where id % 5 = 0;")


# --- w5: deletes in transactions of 100

def delete_base(source, database, scale):
    source.sql(database, f"""create table del (id bigint primary key, a int, b text, c timestamptz);
      insert into del select i, 0, rpad(md5(i::text), 80, 'x'), '2020-01-01' from generate_series(1, {scaled(1_000_000, scale)}) i;
      vacuum analyze del;""")


def delete_backlog(source, database, scale):
    keys = scaled(500_000, scale)
    in_transactions(source, database, keys, 100, "", f"delete from del where id = 1 + (i * 7368787 % {keys}) * 2;")


# --- w6: wide rows with TOAST and three secondary indexes, mixed over 50 tables

WIDE_TABLES = 50


def wide_base(source, database, scale):
    numbers = ", ".join(f"n{i} int default {i}" for i in range(12))
    rows = scaled(2000, scale, 40)
    source.sql(database, f"""do $$ begin for t in 1..{WIDE_TABLES} loop
      execute format('create table wide_%s (id bigint primary key, a int, b text, c timestamptz, {numbers}, doc text)', t);
      execute format('alter table wide_%s alter doc set storage external', t);
      execute format('insert into wide_%s (id, a, b, c, doc) select i, i, md5(i::text), now(), repeat(md5(i::text), 128)
        from generate_series(1, {rows}) i', t);
      execute format('create index on wide_%s (a)', t);
      execute format('create index on wide_%s (b)', t);
      execute format('create index on wide_%s (c)', t);
    end loop; end $$;
    vacuum analyze;""")


def wide_backlog(source, database, scale):
    rows = scaled(2000, scale, 40)
    in_transactions(source, database, scaled(200_000, scale), 20, "t int; k bigint; what int;", f"""
        t := 1 + floor(random() * {WIDE_TABLES}); k := 1 + floor(random() * {rows}); what := i % 10;
        if what < 6 then execute format('update wide_%s set a = a + 1, n3 = n3 + 1 where id = %s', t, k);
        elsif what < 7 then execute format('update wide_%s set doc = repeat(md5(%L), 128) where id = %s', t, i, k);
        elsif what < 9 then execute format('insert into wide_%s (id, a, b, c, doc) values (%s, %s, md5(%L), now(), repeat(md5(%L), 128))', t, {rows} + i, i % 1000, i, i);
        else execute format('delete from wide_%s where id = (select min(id) from wide_%s)', t, t);
        end if;""")


# --- the live tail: half inserts, half updates of hot keys, in transactions of 10

def tail_base(source, database, scale):
    source.sql(database, f"""create table tail_new (id bigint primary key, a int, b text, c timestamptz);
      create table tail_hot (id bigint primary key, a int, b text, c timestamptz);
      insert into tail_hot select i, 0, rpad(md5(i::text), 80, 'x'), '2020-01-01' from generate_series(1, {scaled(100_000, scale)}) i;
      vacuum analyze tail_hot;""")


def tail_backlog(source, database, scale):
    in_transactions(source, database, scaled(500_000, scale), 5, "k bigint;", f"""
        k := 1 + floor(random() * {scaled(100_000, scale)});
        insert into tail_new values (i, i % 1000, repeat(md5(i::text), 2), now());
        update tail_hot set a = a + 1, c = clock_timestamp() where id = k;""")


WORKLOADS = [
    Workload("w1", "200 000 TPC-B transactions", 2.5, 800_000, tpcb_base, tpcb_backlog),
    Workload("w2", "1 M inserts, transactions of 10", 3.5, 1_000_000, insert_base, insert_backlog),
    Workload("w3u", "1 M updates by key, uniform over 10 M", 0, 1_000_000, big_base, uniform_backlog),
    Workload("w3t", "1 M updates by key, 500 000 keys twice", 2.3, 1_000_000, big_base, twice_backlog),
    Workload("w3h", "1 M updates by key, 100 000 hot keys", 4.0, 1_000_000, big_base, hot_backlog),
    Workload("w4", "one transaction of 2 M updates", 1.7, 2_000_000, big_base, huge_backlog),
    Workload("w5", "500 000 deletes, transactions of 100", 1.5, 500_000, delete_base, delete_backlog),
    Workload("w6", "wide rows, TOAST, 3 indexes, 50 tables", 2.0, 200_000, wide_base, wide_backlog),
    Workload("tail", "live tail: inserts and hot updates, walsender", 1.2, 1_000_000, tail_base, tail_backlog, least_pairs=5),
]
