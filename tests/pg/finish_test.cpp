// What the end of a replica must not lose.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

class FinishTest : public PairTest {
 protected:
  // The target's role owns its database and may not set session_replication_role: foreign keys wait for finish.
  ToolResult as_owner(const std::string& command, const Arguments& more = {}) {
    Arguments all{command, "--source", source().conninfo(), "--target", target().conninfo("shop", "app")};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all);
  }
  void clone_as_owner() {
    source().exec(
        "create table customer (id int primary key); insert into customer values (1);"
        "create table orders (id int primary key, customer int references customer); insert into orders values (1, 1)");
    target().exec("create role app login");
    target().exec("create database shop owner app");
    const auto clone = as_owner("clone", {"--until", "caught-up", "--no-owner", "--no-privileges"});
    ASSERT_EQ(clone.code, 0) << clone;
    ASSERT_EQ(foreign_keys(), 0);
  }
  long long foreign_keys() { return target().number("select count(*) from pg_constraint where contype = 'f'", "shop"); }
};

TEST_F(FinishTest, ForcedAfterAFailedDrainStillMakesTheForeignKeys) {
  clone_as_owner();
  source().exec("alter table orders add note text; insert into orders values (2, 1, 'x')");
  EXPECT_EQ(as_owner("finish").code, 8);
  const auto forced = as_owner("finish", {"--force"});
  EXPECT_EQ(forced.code, 0) << forced;
  EXPECT_EQ(foreign_keys(), 1);
}

TEST_F(FinishTest, ForcedWithoutTheSourceNamesTheForeignKeysThatAreMissing) {
  clone_as_owner();
  source().stop();
  const auto forced = as_owner("finish", {"--force", "--give-up-after", "1s"});
  EXPECT_EQ(forced.code, 1) << forced;
  EXPECT_THAT(forced.out, ::testing::HasSubstr("foreign keys"));
}

TEST_F(FinishTest, SequencesOfAnotherDatabaseAreAnError) {
  source().exec("create sequence q");
  const auto result = run("sequences");
  EXPECT_EQ(result.code, 2) << result;
  target().exec("create sequence q");
  EXPECT_EQ(run("sequences").code, 0);
}

}  // namespace
}  // namespace pgbaton::testing
