// The handoff as a library: what is recorded, published, guarded and refused.
#include "clone_fixture.hpp"

namespace pgbaton::snapshot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CloneTest, WholeDatabase) {
  source_.exec(std::string(kTwoTables) +
               "; create view both_tables as select big.id from big join little on big_id = big.id;"
               "create sequence s; select nextval('s'), nextval('s')");
  auto summary = clone(options());
  EXPECT_EQ(summary.tables, 2);
  EXPECT_EQ(summary.rows, 40010);
  EXPECT_EQ(summary.boundaries, 1);
  EXPECT_THAT(testing::differences(source_.conninfo(), target_.conninfo(), {.sequences = true}), IsEmpty());
  EXPECT_EQ(target_.scalar("select phase || ' ' || (consistent_point = '" + to_string(summary.consistent_point) +
                           "') from pgbaton.replica"),
            "streaming true");
  EXPECT_EQ(target_.scalar("select string_agg(distinct phase || guarded || (boundary = '" +
                           to_string(summary.consistent_point) + "'), ',') from pgbaton.table_state"),
            "donetruetrue");
  EXPECT_EQ(
      target_.number("select count(*) from big where _pgbaton_lsn = '" + to_string(summary.consistent_point) + "'"),
      40000);
  EXPECT_EQ(target_.number("select count(*) from pg_constraint where contype = 'f' and convalidated"), 1);
  EXPECT_EQ(target_.number("select count(*) from pg_indexes where schemaname = 'public'"), 3);
  EXPECT_EQ(target_.number("select count(*) from both_tables"), 10);
  EXPECT_EQ(target_.number("select count(*) from pg_class where relname = 'big' and reltuples = 40000"), 1);
  EXPECT_THAT(testing::leftovers(source_.conninfo()), ElementsAre("publication pgbaton", "slot pgbaton"));
  // Again: nothing to do.
  EXPECT_EQ(clone(options()).boundaries, 0);
}

TEST_F(CloneTest, EmptyDatabase) {
  EXPECT_EQ(clone(options()).tables, 0);
  EXPECT_EQ(target_.scalar("select phase from pgbaton.replica"), "streaming");
}

TEST_F(CloneTest, OnlyWhatCanBeReplicatedIsPublished) {
  source_.exec(
      "create table keyed (id int primary key); create table keyless (a int); create table everything (a int);"
      "alter table everything replica identity full; create table deferred (id int primary key deferrable);"
      "create table nothing (id int primary key); alter table nothing replica identity nothing;"
      "create table indexed (a int not null unique); alter table indexed replica identity using index indexed_a_key;"
      "create unlogged table unlogged (id int primary key); insert into unlogged values (1)");
  clone(options());
  auto published = [&](const std::string& name) {
    return source_.scalar(
        "select string_agg(tablename, ' ' order by tablename) from pg_publication_tables where pubname = '" + name +
        "'");
  };
  EXPECT_EQ(published("pgbaton"), "everything indexed keyed");
  EXPECT_EQ(published("pgbaton__ins"), "deferred keyless nothing");
  EXPECT_EQ(state_of("keyless", "inserts_only || guard"), "truenone");
  EXPECT_EQ(state_of("indexed", "inserts_only || guard"), "falsecolumn");
  EXPECT_EQ(state_of("unlogged", "phase"), "skipped");
  EXPECT_THAT(state_of("unlogged", "note"), HasSubstr("unlogged"));
  EXPECT_EQ(target_.number("select count(*) from unlogged"), 0);
  source_.exec(
      "update everything set a = 1; insert into keyless values (1); update keyless set a = 2; delete from keyless;"
      "insert into deferred values (1); update deferred set id = 2");
}

TEST_F(CloneTest, KeylessExcludeAndFull) {
  source_.exec("create table keyed (id int primary key); create table keyless (a int); insert into keyless values (7)");
  auto exclude = options("one");
  exclude.keyless = Keyless::exclude;
  clone(exclude);
  EXPECT_EQ(state_of("keyless", "phase"), "skipped");
  EXPECT_EQ(target_.number("select count(*) from keyless"), 0);
  remove_replica(exclude.source, exclude.target, exclude.names);
  target_.exec("drop table keyed, keyless");
  auto full = options("two");
  full.keyless = Keyless::full;
  clone(full);
  EXPECT_EQ(source_.scalar("select relreplident from pg_class where relname = 'keyless'"), "f");
  EXPECT_EQ(state_of("keyless", "inserts_only || phase"), "falsedone");
  EXPECT_EQ(target_.number("select a from keyless"), 7);
}

TEST_F(CloneTest, PartitionTreesAreGuardedAtTheRoot) {
  source_.exec(
      "create table p (id int primary key, v int) partition by range (id);"
      "create table p1 partition of p for values from (0) to (1000);"
      "create table p2 partition of p for values from (1000) to (3000) partition by range (id);"
      "create table p2a partition of p2 for values from (1000) to (2000);"
      "insert into p select i, i from generate_series(0, 1999) i;"
      "create table q (id int, v int) partition by range (id);"
      "create table q1 partition of q for values from (0) to (10); alter table q1 add primary key (id);"
      "create table q2 partition of q for values from (10) to (20); insert into q select i, i from generate_series(0, "
      "19) i");
  clone(options());
  EXPECT_THAT(testing::differences(source_.conninfo(), target_.conninfo()), IsEmpty());
  EXPECT_EQ(source_.scalar("select string_agg(c.relname, ' ' order by 1) from pg_publication_rel r "
                           "join pg_class c on c.oid = prrelid join pg_publication p on p.oid = prpubid "
                           "where pubname = 'pgbaton'"),
            "p q1");
  EXPECT_EQ(state_of("p", "phase"), "skipped");
  EXPECT_EQ(state_of("p2a", "phase || guard || guarded"), "donecolumntrue");
  EXPECT_EQ(state_of("q2", "inserts_only || guard"), "truenone");
  EXPECT_EQ(target_.number("select attinhcount from pg_attribute where attrelid = 'p2a'::regclass and attname = "
                           "'_pgbaton_lsn'"),
            1);
  auto report = remove_replica(options().source, options().target, options().names);
  EXPECT_THAT(report.left, IsEmpty());
  EXPECT_THAT(testing::leftovers(source_.conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(), IsEmpty());
  EXPECT_THAT(testing::differences(source_.conninfo(), target_.conninfo()), IsEmpty());
}

TEST_F(CloneTest, ALedgerWhereNoColumnCanBe) {
  source_.exec(
      "create table typed (id int primary key); create table user_of_it (id int primary key, t typed);"
      "create table parent (id int primary key); create table child (primary key (id)) inherits (parent);"
      "insert into parent values (1); insert into child values (2)");
  clone(options());
  EXPECT_EQ(state_of("typed", "guard || guarded || (ledger <> '') || ledger_key"), "ledgertruetrue\"id\"");
  EXPECT_EQ(state_of("parent", "guard"), "ledger");
  EXPECT_EQ(state_of("child", "guard"), "ledger");
  EXPECT_EQ(state_of("user_of_it", "guard"), "column");
  EXPECT_THAT(testing::differences(source_.conninfo(), target_.conninfo()), IsEmpty());
}

TEST_F(CloneTest, SameDatabaseIsRefusedAnotherOfTheServerIsNot) {
  source_.exec("create table t (id int primary key); insert into t values (1)");
  auto same = options();
  same.target.conninfo = source_.conninfo();
  auto error = error_of([&] { clone(same); });
  EXPECT_EQ(error.kind(), ErrorKind::preflight) << error.describe();
  EXPECT_EQ(source_.number("select count(*) from pg_namespace where nspname = 'pgbaton'"), 0);
  source_.exec("create database other");
  same.target.conninfo = source_.conninfo("other");
  EXPECT_EQ(clone(same).rows, 1);
}

TEST_F(CloneTest, RefusedCloneLeavesNothing) {
  source_.exec("create table t (id int primary key)");
  target_.exec("create table t (id int)");
  auto error = error_of([&] { clone(options()); });
  EXPECT_EQ(error.kind(), ErrorKind::preflight);
  EXPECT_THAT(error.describe(), HasSubstr("\"public\".\"t\""));
  EXPECT_THAT(testing::leftovers(source_.conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(), IsEmpty());
}

TEST_F(CloneTest, UnknownObjectsOfOurNameAreNeverAdoptedNorRemoved) {
  source_.exec("create table t (id int primary key); create publication pgbaton");
  EXPECT_EQ(error_of([&] { clone(options()); }).kind(), ErrorKind::preflight);
  source_.exec("drop publication pgbaton");
  source_.exec("select pg_create_logical_replication_slot('pgbaton', 'pgoutput')");
  EXPECT_EQ(error_of([&] { clone(options()); }).kind(), ErrorKind::preflight);
  EXPECT_THAT(testing::leftovers(source_.conninfo()), ElementsAre("slot pgbaton"));
  auto report = remove_replica(options().source, options().target, options().names);
  EXPECT_THAT(report.removed, IsEmpty());
  EXPECT_THAT(report.left, ElementsAre(HasSubstr("slot pgbaton")));
  EXPECT_THAT(testing::leftovers(source_.conninfo()), ElementsAre("slot pgbaton"));
}

TEST_F(CloneTest, SchemaNone) {
  source_.exec("create table t (id int primary key, v text); insert into t values (1, 'x')");
  auto given = options();
  given.schema = SchemaMode::none;
  EXPECT_THAT(error_of([&] { clone(given); }).describe(), HasSubstr("lacks \"public\".\"t\""));
  target_.exec(
      "create table t (id int primary key, v text, more int default 5); create index mine on t (v);"
      "insert into t values (9)");
  EXPECT_THAT(error_of([&] { clone(given); }).describe(), HasSubstr("there are rows in"));
  EXPECT_EQ(target_.number("select count(*) from t"), 1);
  target_.exec("truncate t");
  EXPECT_EQ(clone(given).rows, 1);
  EXPECT_EQ(target_.number("select more from t"), 5);
  EXPECT_EQ(target_.number("select count(*) from pg_indexes where schemaname = 'public'"), 2);
}

TEST_F(CloneTest, AdministratorsPublication) {
  source_.exec(
      "create table a (id int primary key); create table b (id int primary key);"
      "create publication theirs for table a");
  auto given = options();
  given.publication = "theirs";
  EXPECT_THAT(error_of([&] { clone(given); }).describe(), HasSubstr("lacks \"public\".\"b\""));
  source_.exec("alter publication theirs add table b; alter publication theirs set (publish = 'insert')");
  EXPECT_THAT(error_of([&] { clone(given); }).describe(), HasSubstr("does not publish all"));
  source_.exec("alter publication theirs set (publish = 'insert, update, delete, truncate')");
  clone(given);
  EXPECT_EQ(target_.scalar("select publication || owns_publication from pgbaton.replica"), "theirsfalse");
  EXPECT_THAT(remove_replica(given.source, given.target, given.names).left, IsEmpty());
  EXPECT_EQ(source_.number("select count(*) from pg_publication where pubname = 'theirs'"), 1);
}

}  // namespace
}  // namespace pgbaton::snapshot
