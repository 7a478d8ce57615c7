// What other commands may not do once the application works on the target.
#include <fstream>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class AfterFlipTest : public PairTest {};

TEST_F(AfterFlipTest, NothingIsCopiedOverTheApplicationsRows) {
  source().exec("create table t (id int primary key, v int); insert into t values (1, 1)");
  clone_until_caught_up();
  const auto config = make_run_directory("switchover") + "/config.yaml";
  std::ofstream(config) << "switchover:\n  hook-flip: exit 1\n";
  EXPECT_EQ(run("switchover", {"--config", config}).code, 1);
  target().exec("update t set v = 2; insert into t values (2, 2)");
  for (const Arguments& more : {Arguments{"--restart"}, Arguments{}}) {
    const auto refused = run("clone", more);
    EXPECT_EQ(refused.code, 2) << refused;
    EXPECT_THAT(refused.err, HasSubstr("was switched over"));
  }
  EXPECT_EQ(target().scalar("select string_agg(t::text, ' ' order by id) from t"), "(1,2) (2,2)");
  // The closed source is nobody's source any more, as long as it is closed.
  const auto elsewhere = target().conninfo("elsewhere");
  target().exec("create database elsewhere");
  for (const auto* command : {"check", "clone"}) {
    const auto refused = Tool::run({command, "--source", source().conninfo(), "--target", elsewhere, "--name", "x"});
    EXPECT_EQ(refused.code, 3) << refused;
    EXPECT_THAT(refused.out + refused.err, HasSubstr("a switchover has closed this database for writers"));
  }
}

}  // namespace
}  // namespace pgbaton::testing
