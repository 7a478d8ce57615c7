// What a copy carries: values of every kind, odd names, odd tables; in binary and in text.
#include "copy_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::IsEmpty;

constexpr const char* kValues = R"sql(
create type mood as enum ('sad', 'o k');
create domain positive as int check (value > 0);
create type pair as (a int, b text);
create table builtin (
  id int primary key, a_bool bool, a_int2 int2, a_int8 int8, a_num numeric, a_num2 numeric(10,3), a_f4 float4, a_f8 float8,
  a_text text, a_char char(5), a_vc varchar(9), a_name name, a_cc "char", a_bytea bytea, a_date date, a_time time,
  a_timetz timetz, a_ts timestamp, a_tstz timestamptz, a_iv interval, a_bit bit(5), a_varbit varbit, a_inet inet,
  a_cidr cidr, a_mac macaddr, a_mac8 macaddr8, a_uuid uuid, a_json json, a_jsonb jsonb, a_tsv tsvector, a_tsq tsquery,
  a_point point, a_box box, a_path path, a_poly polygon, a_circle circle, a_lseg lseg, a_line line, a_ints int[],
  a_texts text[], a_range int4range, a_multi nummultirange, a_tsr tstzrange, a_lsn pg_lsn, a_oid oid, a_jp jsonpath,
  a_xid8 xid8, a_snap txid_snapshot);
insert into builtin values
 (1, true, -32768, 9223372036854775807, 'NaN', 1.5, '1e-45', '-0', E'a\\N\tb\nc', 'ab', '', 'n', 'x', '\xdeadbeef00',
  'infinity', '24:00', '23:59:59.999999+14', '4713-01-01 BC', '-infinity', '-1 year 2 mons -3 days 04:05:06.7', '10101',
  '1', '::1/64', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  '{"a" :  1, "a": 2}', '{"b":[1,null]}', 'a:1A b:2', 'a & !b', '(1,2)', '(1,2),(3,4)', '[(0,0),(1,1)]',
  '((0,0),(1,1),(1,0))', '<(0,0),1.5>', '[(0,0),(1,1)]', '{1,2,3}', '{1,2,3}', '{"a,b","NULL",NULL,""}', '[1,5)',
  '{[1,2),[3.5,)}', '[2020-01-01,infinity)', '16/B374D848', 42, '$.a[*]', '123', '10:20:10,14,15');
insert into builtin (id, a_int8, a_num, a_f4, a_f8, a_text, a_vc, a_bytea, a_date, a_ts, a_varbit, a_ints, a_texts, a_range,
  a_multi) values (2, -9223372036854775808, 1234567890123456789012345678901234567890.12345678901234567890,
  '3.4028235e38', '1.7976931348623157e308', '\N', 'null', '', '0044-03-15 BC', 'infinity', '', '[0:2]={1,NULL,3}', '{}',
  'empty', '{}');
insert into builtin (id, a_num, a_f4, a_f8, a_text, a_char, a_vc, a_name, a_cc, a_date, a_time, a_tstz, a_iv, a_inet, a_json,
  a_jsonb) values (3, 'infinity', 'NaN', '-infinity', '', '', '\.', '', '', '5874897-12-31', '00:00',
  '294276-12-31 23:59:59+00', '178000000 years', '255.255.255.255', 'null', 'null');
create table own (id serial primary key, m mood, p positive, c pair, ms mood[], ps pair[], r regclass, rt regtype[],
  x xml, cash money, k citext);
insert into own (m, p, c, ms, ps, r, rt, x, cash, k) values
 ('o k', 7, '(1,"a ""b"",")', '{sad,"o k"}', '{"(1,a)","(,)"}', 'builtin', '{int4,mood}', '<a b="c">&amp;</a>',
  '-12.34', 'MiXed'), (null, null, null, null, null, null, null, 'text', 0, '');
)sql";

constexpr const char* kShapes = R"sql(
create schema "Sp a.C";
create table "Sp a.C"."a""b.c" ("x""y" int primary key, "select" text, "Ключ" text,
  "n23456789012345678901234567890123456789012345678901234567890123" int);
insert into "Sp a.C"."a""b.c" values (1, 'a', 'б', 2);
create index "Sp ix" on "Sp a.C"."a""b.c" ("select");
create table zero (); insert into zero select from generate_series(1, 7);
create table only_generated (g int generated always as (42) stored);
insert into only_generated select from generate_series(1, 3);
create table generated (g int generated always as (a * 2) stored, a int, id int generated always as identity primary key);
insert into generated (a) values (1), (2);
create table parent (id int primary key, v text); create table child (w text) inherits (parent);
insert into parent values (1, 'p'); insert into child values (2, 'c', 'w');
create table parts (id int, k int, v text, primary key (id, k)) partition by list (k);
create table parts_1 partition of parts for values in (1);
create table parts_2 (v text, junk int, k int not null, id int not null); alter table parts_2 drop column junk;
alter table parts attach partition parts_2 for values in (2);
insert into parts select i, 1 + i % 2, 'v' || i from generate_series(1, 100) i; create index on parts (v);
create table dropped (a int, b text, c int); alter table dropped drop column b; insert into dropped values (1, 2);
create unlogged table unlogged_one (id int); insert into unlogged_one values (1);
create table filled (id int primary key, pad text); insert into filled select i, repeat(md5(i::text), 20)
  from generate_series(1, 3000) i;
create table toasted (id int, j jsonb); alter table toasted alter j set storage external;
insert into toasted select 1, jsonb_build_object('a', repeat('x', 200000));
)sql";

// Defaults that change how values look, on both sides' roles.
void make_hostile(Cluster& cluster) {
  for (const char* setting : {"datestyle = 'German, DMY'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'",
                              "extra_float_digits = -5", "timezone = 'Asia/Kolkata'", "search_path = 'public'",
                              "statement_timeout = '20s'", "default_transaction_isolation = 'serializable'",
                              "xmloption = 'document'", "standard_conforming_strings = off"})
    cluster.exec(std::string("alter role postgres set ") + setting);
}

class CopyValues : public TableCopyTest, public ::testing::WithParamInterface<bool> {};

TEST_P(CopyValues, S30S31S32EverythingArrivesEqual) {
  source().exec("create extension citext");
  source().exec(kValues);
  source().exec(kShapes);
  make_hostile(source());
  make_hostile(target());
  const Snapshot snapshot(source());
  const auto report = clone_all(snapshot, {}, GetParam());
  EXPECT_THAT(report.warnings, IsEmpty());
  expect_equal();
  EXPECT_EQ(target().number("select count(*) from pg_index where not indisvalid"), 0);
  EXPECT_EQ(
      target().scalar("select string_agg(indexrelid::regclass::text, ',' order by relname) from pg_index i"
                      " join pg_class c on c.oid = indexrelid where relnamespace::regnamespace::text !~ 'pg_|pgbaton'"),
      source().scalar(
          "select string_agg(indexrelid::regclass::text, ',' order by relname) from pg_index i"
          " join pg_class c on c.oid = indexrelid where relnamespace::regnamespace::text !~ 'pg_|pgbaton'"));
  EXPECT_EQ(target().number("select count(*) from zero"), 7);
  EXPECT_EQ(target().number("select rows from pgbaton.table_state where table_name = 'filled'"), 3000);
  EXPECT_EQ(
      target().number("select count(*) from pgbaton.table_state where phase <> 'copied' or boundary <> '0/1234567'"),
      0);
  EXPECT_EQ(progress_.tables_done, static_cast<std::int64_t>(copied_.size()));
}

INSTANTIATE_TEST_SUITE_P(Formats, CopyValues, ::testing::Values(true, false),
                         [](const auto& instance) { return instance.param ? "binary" : "text"; });

// Rows of a fresh table are frozen: no vacuum has to write them again.
TEST_F(TableCopyTest, RowsAreFrozen) {
  source().exec("create table t (id int primary key); insert into t select generate_series(1, 1000)");
  const Snapshot snapshot(source());
  clone_all(snapshot);
  target().exec("create extension pg_visibility");
  EXPECT_EQ(target().number("select count(*) from pg_check_frozen('t')"), 0);
  EXPECT_GT(target().number("select count(*) from pg_visibility_map('t') where all_frozen"), 0);
}

// --schema none: leftovers of a killed copy are replaced, also where foreign keys forbid TRUNCATE.
TEST_F(TableCopyTest, ReplacesLeftovers) {
  for (auto* cluster : {&source(), &target()})
    cluster->exec("create table a (id int primary key); create table b (id int primary key, a int references a)");
  source().exec("insert into a select generate_series(1, 10); insert into b select i, i from generate_series(1, 10) i");
  target().exec("insert into a values (1), (99); insert into b values (7, 99)");
  const Snapshot snapshot(source());
  copy_all(snapshot, record_jobs(), copy_options());
  expect_equal();
}

TEST_F(TableCopyTest, AColumnThatTheTargetLacksIsNamed) {
  source().exec("create table t (id int primary key, b int)");
  target().exec("create table t (id int primary key)");
  const Snapshot snapshot(source());
  try {
    copy_all(snapshot, record_jobs(), copy_options());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::rejected);
    EXPECT_EQ(error.table(), "\"public\".\"t\"");
  }
}

}  // namespace
}  // namespace pgbaton::testing
