// What follows the rows: indexes, constraints, views, foreign keys, guard, sequences.
#include <cstdlib>

#include "copy_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kObjects = R"(
create schema "Sp a.C"; comment on schema public is 'hello';
create table p (id int primary key, v text, check (v <> 'x')); alter table p add constraint nv check (v <> 'y') not valid;
insert into p select i, 'v' || i from generate_series(1, 100) i;
create table "Sp a.C"."a""b.c" (id int primary key, p int references p, constraint u unique (p) deferrable);
insert into "Sp a.C"."a""b.c" select i, i from generate_series(1, 50) i;
create index "Sp ix" on "Sp a.C"."a""b.c" (p); alter table "Sp a.C"."a""b.c" cluster on "Sp ix";
create unique index pu on p (id); create index pe on p ((id + 1)); alter index pe alter column 1 set statistics 44;
create table pt (id int, k int, primary key (id, k), foreign key (id) references p) partition by list (k);
create table pt1 partition of pt for values in (1); create table pt2 partition of pt for values in (2);
insert into pt select i, 1 + i % 2 from generate_series(1, 100) i;
create index on pt (k); alter table pt1 replica identity using index pt1_pkey; alter table p replica identity full;
create view vw as select id, v, count(*) from p group by id;
create materialized view mv as select * from vw; create unique index on mv (id);
create materialized view mv2 as select * from mv; create materialized view mv3 as select * from mv with no data;
comment on constraint p_pkey on p is 'pk'; comment on index pu is 'idx';
create function f() returns trigger language plpgsql as $$begin return new; end$$;
create trigger t before insert on p for each row execute function f(); alter table p enable always trigger t;
comment on trigger t on p is 'tr'; create trigger tt after insert on pt for each row execute function f();
alter table pt2 disable trigger tt;
create rule r as on delete to p do also nothing; create policy pol on p using (true);
alter table p enable row level security;
create function ef() returns event_trigger language plpgsql as $$begin end$$;
create event trigger ev on ddl_command_start execute function ef();
create statistics st on id, v from p; create table excl (r int4range, exclude using gist (r with &&));
alter default privileges grant select on tables to public; grant select on p to public;
create publication pub for table p; create schema pgbaton; create table pgbaton.x (id int);
create function fn(int) returns int language sql begin atomic select $1 + 1; end;
)";

// Everything about objects that two databases with equal schemas agree on.
std::string catalog_of(const Cluster& cluster) {
  return cluster.scalar(R"sql(
with rel as (select c.oid, format('%I.%I', n.nspname, relname) as name, relreplident, relrowsecurity, relispopulated, relacl, relkind from pg_class c join pg_namespace n on n.oid = relnamespace
             where n.nspname in ('public', 'Sp a.C'))
select string_agg(line, E'\n' order by line) from (
  select 'constraint ' || r.name || ' ' || conname || ' ' || pg_get_constraintdef(x.oid) || ' ' || convalidated as line
    from pg_constraint x join rel r on r.oid = conrelid
  union all select 'index ' || pg_get_indexdef(r.oid) || indisvalid || indisclustered || indisreplident || ' ' ||
       coalesce((select string_agg(attstattarget::text, ',') from pg_attribute where attrelid = r.oid), '')
    from pg_index join rel r on r.oid = indexrelid
  union all select 'trigger ' || r.name || pg_get_triggerdef(t.oid) || tgenabled::text from pg_trigger t join rel r on r.oid = tgrelid where not tgisinternal
  union all select 'rule ' || pg_get_ruledef(x.oid) from pg_rewrite x join rel r on r.oid = ev_class
  union all select 'policy ' || polname from pg_policy
  union all select 'table ' || name || relreplident::text || relrowsecurity || relispopulated || coalesce(relacl::text, '') from rel where relkind not in ('i', 'I')
  union all select 'event ' || evtname from pg_event_trigger
  union all select 'statistics ' || stxname from pg_statistic_ext
  union all select 'comment ' || description from pg_description d where description in ('pk', 'idx', 'tr')
  union all select 'default ' || defaclacl::text from pg_default_acl) x)sql");
}

class CopyFinalize : public TableCopyTest {};

TEST_F(CopyFinalize, EverythingArrivesAndCanBeRepeated) {
  source().exec(kObjects);
  const Snapshot snapshot(source());
  EXPECT_THAT(clone_all(snapshot).warnings, IsEmpty());
  EXPECT_EQ(catalog_of(target()), catalog_of(source()));
  EXPECT_EQ(target().scalar("select obj_description('public'::regnamespace)"), "hello");
  EXPECT_EQ(target().number("select count(*) from pg_publication"), 0);
  EXPECT_EQ(target().scalar("select to_regclass('pgbaton.x')"), "");
  EXPECT_EQ(target().number("select count(*) from mv2"), 100);
  expect_equal();

  const auto archive = dump(snapshot);
  copy::build_indexes(target_endpoint(), archive, copied_, {});
  EXPECT_THAT(copy::restore_rest(target_endpoint(), archive, true, {}).warnings, IsEmpty());
  EXPECT_EQ(catalog_of(target()), catalog_of(source()));
}

TEST_F(CopyFinalize, WithoutReplicaRoleTriggersAndForeignKeysComeLater) {
  source().exec(kObjects);
  const Snapshot snapshot(source());
  const auto archive = dump(snapshot);
  archive.restore_pre_data(target_endpoint(), {});
  copy_all(snapshot, record_jobs(), copy_options());
  copy::build_indexes(target_endpoint(), archive, copied_, {});
  copy::restore_rest(target_endpoint(), archive, false, {});
  EXPECT_EQ(target().number("select count(*) from pg_constraint where contype = 'f'"), 0);
  EXPECT_EQ(target().number(
                "select count(*) from pg_trigger where not tgisinternal and tgrelid::regclass::text !~ '^pgbaton\\.'"),
            0);
  EXPECT_EQ(target().number("select count(*) from pg_index where not indisvalid"), 0);
  EXPECT_EQ(target().number("select count(*) from mv"), 100);
  copy::restore_rest(target_endpoint(), archive, true, {});
  EXPECT_EQ(catalog_of(target()), catalog_of(source()));
}

TEST_F(CopyFinalize, AnObjectThatExistsIsNamedAndNothingIsLeft) {
  source().exec("create table a (id int); create table b (id int)");
  target().exec("create table b (id int)");
  const Snapshot snapshot(source());
  const auto archive = dump(snapshot);
  try {
    archive.restore_pre_data(target_endpoint(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::rejected);
    EXPECT_THAT(error.message(), HasSubstr("TABLE public.b"));
    EXPECT_THAT(error.hint(), Not(IsEmpty()));
  }
  EXPECT_EQ(target().scalar("select to_regclass('a')"), "");
}

TEST_F(CopyFinalize, GuardColumnsOfASourceThatIsATargetAreNotCopied) {
  source().exec(
      "create table t (id int primary key, v text); insert into t values (1, 'a');"
      "alter table t add _pgbaton_lsn pg_lsn not null default '0/77'");
  const Snapshot snapshot(source());
  clone_all(snapshot);
  EXPECT_EQ(target().number("select count(*) from pg_attribute where attname = '_pgbaton_lsn'"), 0);
  expect_equal();
}

TEST_F(CopyFinalize, S42OrphansLeaveTheForeignKeyNotValid) {
  source().exec(
      "create table a (id int primary key); create table b (id int primary key, a int references a);"
      "create table c (id int primary key, a int references a);"
      "insert into a values (1); insert into c values (1, 1);"
      "set session_replication_role = replica; insert into b values (1, 1), (2, 99)");
  const Snapshot snapshot(source());
  const auto report = clone_all(snapshot);
  expect_equal();
  EXPECT_EQ(
      target().scalar(
          "select string_agg(conname || convalidated, ' ' order by conname) from pg_constraint where contype = 'f'"),
      "b_a_fkeyfalse c_a_fkeytrue");
  EXPECT_THAT(report.warnings, Contains(HasSubstr("b_a_fkey")));
  EXPECT_THROW(target().exec("insert into b values (3, 98)"), SqlError);
}

TEST_F(CopyFinalize, S45WhatHangsOnExcludedTablesIsLeftOutAndReported) {
  source().exec(
      "create schema s; create table s.x (id int primary key, v text); create table \"A.b\" (id int primary key);"
      "create table k (id int primary key, x int references s.x, ab int references \"A.b\");"
      "create view over_x as select * from s.x; create view over_over as select * from over_x;"
      "create materialized view mat_over as select * from over_over; comment on view over_x is 'c';"
      "create function takes(s.x) returns int language sql as 'select 1'; grant select on over_x to public;"
      "create view kept as select * from k; create policy pol on k using (exists (select from s.x));"
      "insert into s.x values (1); insert into k values (1, 1, null);"
      "create rule r as on insert to k do also insert into s.x values (new.id)");
  copy::SchemaOptions options;
  options.excluded_tables = {{"s", "x"}, {"public", "A.b"}};
  const Snapshot snapshot(source());
  const auto report = clone_all(snapshot, options);
  EXPECT_EQ(
      target().scalar("select string_agg(relname, ' ' order by relname) from pg_class where relkind in ('r', 'v', 'm')"
                      " and relnamespace = 'public'::regnamespace"),
      "k kept");
  EXPECT_EQ(target().scalar("select to_regclass('s.x')"), "");
  EXPECT_EQ(target().number("select count(*) from pg_constraint where contype = 'f'"), 0);
  EXPECT_EQ(target().number("select count(*) from k"), 1);
  EXPECT_THAT(report.warnings, Contains(HasSubstr("k_x_fkey")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("k_ab_fkey")));
}

TEST_F(CopyFinalize, GuardIsMetadataOnlyAndRepeatable) {
  target().exec(
      "create table t (id int primary key); insert into t select generate_series(1, 1000);"
      "create table \"P.q\" (id int, k int) partition by list (k); create table leaf partition of \"P.q\" for values "
      "in (1);"
      "insert into \"P.q\" values (1, 1)");
  auto control = target_control();
  const QualifiedName table{"public", "t"}, root{"public", "P.q"}, leaf{"public", "leaf"};
  const auto file = target().scalar("select pg_relation_filenode('t')");
  for (int i = 0; i < 2; ++i) {
    copy::add_guard(*control, table, kBoundary);
    copy::add_guard(*control, root, kBoundary);
  }
  EXPECT_EQ(target().scalar("select pg_relation_filenode('t')"), file);
  EXPECT_EQ(target().number("select count(*) from t where _pgbaton_lsn = '0/1234567'"), 1000);
  EXPECT_EQ(target().number("select count(*) from leaf where _pgbaton_lsn = '0/1234567'"), 1);
  EXPECT_THROW(copy::add_guard(*control, table, Lsn{1}), Error);

  target().exec("create view v as select * from t");
  try {
    copy::drop_guard(*control, table);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::rejected);
    EXPECT_THAT(error.message(), HasSubstr("view public.v"));
  }
  target().exec("drop view v");
  copy::drop_guard(*control, table);
  copy::drop_guard(*control, table);
  copy::drop_guard(*control, leaf);
  copy::drop_guard(*control, root);
  EXPECT_EQ(target().number("select count(*) from pg_attribute where attname = '_pgbaton_lsn' and not attisdropped"),
            0);
}

TEST_F(CopyFinalize, GuardOfInheritance) {
  target().exec(
      "create table parent (id int); create table child () inherits (parent);"
      "insert into parent values (1); insert into child values (2)");
  auto control = target_control();
  const QualifiedName parent{"public", "parent"}, child{"public", "child"};
  copy::add_guard(*control, child, Lsn{0x20});
  copy::add_guard(*control, parent, Lsn{0x10});
  EXPECT_EQ(target().scalar("select string_agg(id || ':' || _pgbaton_lsn, ' ' order by id) from parent"),
            "1:0/10 2:0/20");
  copy::drop_guard(*control, child);
  copy::drop_guard(*control, parent);
  EXPECT_EQ(target().number("select count(*) from pg_attribute where attname = '_pgbaton_lsn' and not attisdropped"),
            0);
}

// A reader of the target must not make everybody queue behind our DDL for long.
TEST_F(CopyFinalize, GuardWaitsForALockInShortSteps) {
  target().exec("create table t (id int primary key)");
  auto reader = target().session();
  reader.exec("begin; select * from t");
  auto added = std::async(std::launch::async, [this] {
    auto control = target_control();
    copy::add_guard(*control, {"public", "t"}, kBoundary);
  });
  EXPECT_TRUE(target().wait_until("select count(*) from pg_stat_activity where wait_event_type = 'Lock'", "1"));
  std::this_thread::sleep_for(Milliseconds(2500));
  reader.exec("commit");
  added.get();
  EXPECT_EQ(target().number("select count(*) from pg_attribute where attname = '_pgbaton_lsn'"), 1);
}

TEST_F(CopyFinalize, S44Sequences) {
  for (auto* cluster : {&source(), &target()})
    cluster->exec(
        "create table t (id serial, g int generated always as identity); create schema \"S p\";"
        "create sequence down increment -5; create sequence cached cache 50; create sequence never start 17;"
        "create sequence \"S p\".\"q\"\"x\"; create sequence round maxvalue 100 cycle;");
  source().exec(
      "create sequence source_only; insert into t default values; select nextval('down'), nextval('down'),"
      " nextval('cached'), nextval('\"S p\".\"q\"\"x\"'), setval('round', 97)");
  target().exec("select setval('never', 500); create sequence target_only start 3");
  auto from = pg::open_control(source_endpoint(), "test");
  auto to = target_control();
  EXPECT_EQ(copy::copy_sequences(*from, *to, 0), 7);
  EXPECT_EQ(target().number("select nextval('never')"), 17);
  EXPECT_EQ(target().number("select nextval('down')"), -11);
  EXPECT_GT(target().number("select nextval('cached')"), 50);
  EXPECT_EQ(target().number("select nextval('target_only')"), 3);
  target().exec("insert into t default values");
  EXPECT_EQ(target().scalar("select id || ' ' || g from t"), "2 2");

  EXPECT_EQ(copy::copy_sequences(*from, *to, 3), 7);
  EXPECT_EQ(target().number("select last_value from down"), -21);
  EXPECT_EQ(target().number("select last_value from round"), 100);
  try {
    copy::copy_sequences(*from, *to, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::rejected);
    EXPECT_THAT(error.message(), HasSubstr("round"));
  }
  EXPECT_EQ(target().number("select last_value from down"), -21) << "all or none";
}

class CopyMany : public TableCopyTest {
 protected:
  // Room for so few locks that 200 tables do not fit into one transaction, as thousands do not with the default.
  ClusterOptions target_options() const override { return {.settings = {{"max_locks_per_transaction", "10"}}}; }
};

// S43 in small (PGBATON_TEST_TABLES=3000 for the real thing): the time of each step is recorded.
TEST_F(CopyMany, S43ManyTables) {
  const char* given = std::getenv("PGBATON_TEST_TABLES");
  const int count = given == nullptr ? 200 : std::atoi(given);
  auto session = source().session();
  for (int from = 1; from <= count; from += 300)
    session.exec("do $$ begin for i in " + std::to_string(from) + ".." + std::to_string(std::min(from + 299, count)) +
                 " loop execute format('create table t%s (id int primary key, v text unique);"
                 " insert into t%s values (1, 2)', i, i); end loop; end $$");
  const Snapshot snapshot(source());
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start).count();
  };
  const auto archive = dump(snapshot);
  RecordProperty("dumped_ms", std::to_string(passed()));
  archive.restore_pre_data(target_endpoint(), {});
  RecordProperty("restored_ms", std::to_string(passed()));
  auto jobs = record_jobs();
  copy_all(snapshot, std::move(jobs), copy_options());
  RecordProperty("copied_ms", std::to_string(passed()));
  copy::build_indexes(target_endpoint(), archive, copied_, {});
  RecordProperty("indexed_ms", std::to_string(passed()));
  EXPECT_THAT(copy::restore_rest(target_endpoint(), archive, true, {}).warnings, IsEmpty());
  RecordProperty("finished_ms", std::to_string(passed()));
  EXPECT_EQ(target().number("select count(*) from pg_index where indrelid::regclass::text ~ '^t[0-9]'"), 2 * count);
  EXPECT_EQ(target().number("select count(*) from pg_class where relname ~ '^t[0-9]+$' and reltuples <> 0"), count);
  EXPECT_EQ(static_cast<int>(copied_.size()), count);
}

TEST_F(CopyFinalize, PgDumpMustNotBeOlderThanTheSource) {
  EXPECT_THAT(copy::find_pg_dump("", 150000), HasSubstr("pg_dump"));
  for (const auto& wanted : {std::string(), copy::find_pg_dump("", 150000)}) {
    try {
      copy::find_pg_dump(wanted, 990000);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::preflight);
      EXPECT_THAT(error.message(), HasSubstr("pg_dump"));
    }
  }
  EXPECT_THROW(copy::find_pg_dump("/bin/true", 150000), Error);
}

TEST_F(CopyFinalize, DumpOfALostSnapshotMayBeTriedAgain) {
  try {
    copy::SchemaArchive::dump(source_endpoint(), "00000003-00000999-1", {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.action(), Action::retry);
  }
}

}  // namespace
}  // namespace pgbaton::testing
