// The test support itself: servers, the judge, the load.
#include <fstream>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SupportTest : public PairTest {};

TEST_F(SupportTest, JudgeSeesEveryKindOfDifference) {
  const std::string common =
      "create table keyed (id int primary key, v text); create table keyless (a int, b text);"
      "insert into keyed select i, 'v' || i from generate_series(1, 1000) i;"
      "insert into keyless values (1, null), (1, null), (2, ''), (3, E'a\\tb\\nc\\\\');";
  source().exec(common);
  target().exec(common +
                "create schema pgbaton; create table pgbaton.x (a int);"
                "alter table keyed add _pgbaton_lsn pg_lsn not null default '0/1'");
  expect_equal();
  target().exec("update keyed set v = '' where id = 7");
  EXPECT_THAT(differences(source().conninfo(), target().conninfo()), SizeIs(3));
  target().exec("update keyed set v = 'v7' where id = 7; delete from keyless where ctid = '(0,1)'");
  EXPECT_THAT(differences(source().conninfo(), target().conninfo()),
              ElementsAre("public.keyless: only on the source: (1,)",
                          "public.keyless: 1 rows only on the source, 0 only on the target, of 4 and 3"));
  target().exec("insert into keyless values (1, ''); create table extra (a int); alter table keyed add w int");
  EXPECT_THAT(differences(source().conninfo(), target().conninfo()), SizeIs(5));
}

TEST_F(SupportTest, JudgeComparesSequences) {
  source().exec("create sequence q; select nextval('q')");
  target().exec("create sequence q");
  EXPECT_THAT(differences(source().conninfo(), target().conninfo()), IsEmpty());
  EXPECT_THAT(differences(source().conninfo(), target().conninfo(), {.sequences = true}), SizeIs(1));
}

TEST_F(SupportTest, ServerSurvivesStopAndCrash) {
  source().exec("create table t (a int); insert into t values (1)");
  source().restart(StopMode::immediate);
  EXPECT_EQ(source().number("select count(*) from t"), 1);
  auto open = source().session();
  open.exec("insert into t values (2)");
  source().crash();
  EXPECT_FALSE(source().running());
  EXPECT_THROW(open.exec("select 1"), SqlError);
  source().start();
  EXPECT_EQ(source().number("select count(*) from t"), 2);
}

TEST_F(SupportTest, LoadCountsAcknowledgedCommits) {
  source().exec("create table t (a int)");
  Load load(source().conninfo(), 3, "insert into t values (1)");
  ASSERT_TRUE(load.wait_done(50));
  const auto done = load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  EXPECT_EQ(source().number("select count(*) from t"), done);
  Pgbench bench(source().conninfo(), {"-c", "2", "-t", "10"}, "insert into t values (2);\n");
  bench.wait();
  EXPECT_EQ(source().number("select count(*) from t where a = 2"), 20);
}

TEST_F(SupportTest, LeftoversAreListed) {
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  source().exec("create publication pgbaton; create table t (a int)");
  source().exec("select pg_create_logical_replication_slot('pgbaton_x', 'pgoutput')");
  source().exec("begin; insert into t values (1); prepare transaction 'pgbaton_gid'");
  EXPECT_THAT(leftovers(source().conninfo()),
              ElementsAre("prepared pgbaton_gid", "publication pgbaton", "slot pgbaton_x"));
  target().exec("create schema pgbaton; create table t (_pgbaton_lsn pg_lsn)");
  EXPECT_THAT(target_leftovers(target().conninfo()), ElementsAre("column t._pgbaton_lsn", "schema pgbaton"));
}

class MajorTest : public ::testing::TestWithParam<int> {};

TEST_P(MajorTest, ServerOfThisMajorStarts) {
  ASSERT_TRUE(Cluster::available(GetParam())) << "run scripts/postgres " << GetParam();
  Cluster cluster({.major = GetParam()});
  EXPECT_EQ(cluster.number("select current_setting('server_version_num')::int / 10000"), GetParam());
  EXPECT_EQ(cluster.scalar("show wal_level"), "logical");
}
INSTANTIATE_TEST_SUITE_P(Majors, MajorTest, ::testing::Values(12, 13, 14, 15, 16, 17, 18),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pgbaton::testing
