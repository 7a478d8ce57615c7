// What is published, and that the application on the source never notices (G9).
#include "source_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PublicationTest : public SourceTest {
 protected:
  std::vector<std::string> published(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& table : source::published_tables(control(), name)) names.push_back(table.name);
    return names;
  }
};

TEST_P(PublicationTest, PublishesByIdentityAndBreaksNoStatement) {
  exec(R"(
create table keyed (id int primary key, v int); create table keyless (a int); create unique index on keyless (a);
create table parent (id int primary key); create table child (x int) inherits (parent);
create schema "S p"; create table "S p"."a""b" (id int primary key))");
  source::PublicationPlan plan{"pgbaton",
                               {{"public", "keyed"}, {"public", "parent"}, {"S p", "a\"b"}},
                               "pgbaton__ins",
                               {{"public", "keyless"}, {"public", "child"}}};
  source::create_publications(control(), plan);
  EXPECT_THAT(published("pgbaton"), ElementsAre("a\"b", "keyed", "parent"));
  EXPECT_THAT(published("pgbaton__ins"), ElementsAre("child", "keyless"));
  EXPECT_EQ(cluster().scalar("select string_agg(concat(pubinsert, pubupdate, pubdelete, pubtruncate), ' ' order by "
                             "pubname) from pg_publication"),
            "tttt tfft");
  // S41
  exec(
      "insert into keyless values (1); update keyless set a = 2; delete from keyless;"
      "insert into keyless values (3) on conflict (a) do update set a = 4; update parent set id = id;"
      "insert into child values (1, 2); update child set x = 3; delete from child; truncate keyless");

  const auto again = error_of([&] { source::create_publications(control(), plan); });
  EXPECT_EQ(again.kind(), ErrorKind::preflight);
  EXPECT_THAT(again.message(), HasSubstr("publication \"pgbaton\" exists already"));
  EXPECT_TRUE(source::publication_exists(control(), "pgbaton"));
  EXPECT_TRUE(source::drop_publication(control(), "pgbaton"));
  EXPECT_FALSE(source::drop_publication(control(), "pgbaton"));
  EXPECT_FALSE(source::publication_exists(control(), "pgbaton"));
  // The second of the two exists still: neither is made.
  EXPECT_EQ(error_of([&] { source::create_publications(control(), plan); }).kind(), ErrorKind::preflight);
  EXPECT_FALSE(source::publication_exists(control(), "pgbaton"));
}

TEST_P(PublicationTest, PartitionedTablesArePublishedByTheirLeaves) {
  exec(R"(
create table root (id int primary key) partition by range (id);
create table root_1 partition of root for values from (0) to (10) partition by range (id);
create table root_1_1 partition of root_1 for values from (0) to (10);
create table root_2 partition of root for values from (10) to (20))");
  publish({"root"});
  EXPECT_THAT(published("pgbaton"), ElementsAre("root_1_1", "root_2"));
  const auto lsn = take("pgbaton").consistent_point();
  exec("insert into root values (1), (11); update root set id = 12 where id = 1");
  const auto reader = read("pgbaton", lsn);
  EXPECT_EQ(read_until(*reader, source::emit_barrier(control())).ids(), (std::multiset<long long>{1, 11, 12}));
}

TEST_P(PublicationTest, HugeListsAndEmptyOnes) {
  exec("do $$ begin for i in 1..1203 loop execute format('create table t%s (a int primary key)', i); end loop; end $$");
  std::vector<std::string> names;
  for (int i = 1; i <= 1203; ++i) names.push_back("t" + std::to_string(i));
  publish(names);
  EXPECT_EQ(published("pgbaton").size(), 1203u);
  source::drop_publication(control(), "pgbaton");
  source::create_publications(control(), {.publication = "pgbaton", .publication_inserts = "pgbaton__ins"});
  EXPECT_THAT(published("pgbaton"), IsEmpty());
  EXPECT_FALSE(source::publication_exists(control(), "pgbaton__ins"));
}

TEST_P(PublicationTest, MissingRightsAreNamed) {
  exec("create table t (a int primary key); create role plain login; grant create on database postgres to plain");
  const auto plain = pg::open_control({Side::source, cluster().conninfo("postgres", "plain"), "test"}, "control");
  const auto error = error_of([&] { source::create_publications(*plain, {"pgbaton", {{"public", "t"}}, "", {}}); });
  EXPECT_EQ(error.kind(), ErrorKind::preflight);
  EXPECT_EQ(error.sqlstate(), "42501");
  EXPECT_THAT(error.hint(), HasSubstr("--publication"));
}

INSTANTIATE_TEST_SUITE_P(Majors, PublicationTest, ::testing::Values(12, 15, 18), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pgbaton::testing
