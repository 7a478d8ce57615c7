// A wrong --source, at the commands that take something away: another database of the same cluster, and another
// cluster, where somebody else has a slot and publications of the same names.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OwnSourceTest : public PairTest {
 protected:
  // "slots publications", of all that carries our name there.
  static std::string remnants(Cluster& cluster, const std::string& database) {
    return cluster.scalar(
        "select (select count(*) from pg_replication_slots where slot_name like 'pgbaton%') || ' ' || "
        "(select count(*) from pg_publication where pubname like 'pgbaton%')",
        database);
  }
};

TEST_F(OwnSourceTest, AnotherDatabaseOrClusterIsRefusedByEveryCommand) {
  source().exec("create table t (id int primary key); insert into t select generate_series(1, 5)");
  source().exec("create database other");
  source().exec("create table t (id int primary key); create publication pgbaton for table t", "other");
  // Of another major, because clusters of one major are copies of one template with one system identifier.
  Cluster elsewhere(ClusterOptions{.major = 16});
  elsewhere.exec("create table q (id int primary key); create publication pgbaton for table q");
  elsewhere.exec("select pg_create_logical_replication_slot('pgbaton', 'pgoutput')");
  ASSERT_EQ(run("clone", {"--until", "caught-up"}).code, 0);

  const std::vector<Arguments> commands{{"clone", "--restart"},
                                        {"drop"},
                                        {"finish"},
                                        {"finish", "--force"},
                                        {"follow", "--until", "caught-up"},
                                        {"verify"},
                                        {"resync", "t"},
                                        {"sequences"},
                                        {"wait", "--for", "caught-up"}};
  for (const auto& wrong : {source().conninfo("other"), elsewhere.conninfo()}) {
    for (auto arguments : commands) {
      arguments.insert(arguments.end(), {"--source", wrong, "--target", target().conninfo()});
      const auto result = Tool::run(arguments);
      EXPECT_EQ(result.code, arguments.front() == "follow" ? 4 : 2) << arguments.front() << wrong << result;
      EXPECT_EQ(target().number("select count(*) from t"), 5) << arguments.front();
      EXPECT_EQ(target().scalar("select phase from pgbaton.replica"), "ready");
      EXPECT_EQ(remnants(source(), "postgres"), "1 1");
      EXPECT_EQ(remnants(source(), "other"), "1 1");
      EXPECT_EQ(remnants(elsewhere, "postgres"), "1 1");
    }
  }
  const auto refused = Tool::run({"drop", "--source", source().conninfo("other"), "--target", target().conninfo()});
  EXPECT_THAT(refused.err, HasSubstr("begun on another source"));
  EXPECT_THAT(refused.err, HasSubstr("database \"other\""));

  // A database that was renamed is the same one: the slot went with it.
  source().exec("alter database postgres rename to renamed", "other");
  const auto dropped = Tool::run({"drop", "--source", source().conninfo("renamed"), "--target", target().conninfo()});
  EXPECT_EQ(dropped.code, 0) << dropped;
  EXPECT_EQ(source().scalar("select count(*) from pg_replication_slots", "other"), "0");
  source().exec("alter database renamed rename to postgres", "other");
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::testing
