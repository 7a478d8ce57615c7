// What other commands may not do once the application works on the target.
#include <signal.h>

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
  // What is to be done at the end is done again until it has been, also by one that is killed right after it.
  const auto called = config + ".called";
  const auto end = [&](const std::string& command, const Environment& environment = {}) {
    std::ofstream(config) << "switchover:\n  hooks:\n    clean-up: 'echo call >> " << called << "; " << command
                          << "'\n";
    return run("switchover", {"--config", config}, environment);
  };
  const auto failed = end("exit 1");
  EXPECT_EQ(failed.code, 1) << failed;
  EXPECT_THAT(failed.out, HasSubstr("failed at step clean-up; the target is open and the application works there: run "
                                    "the same command again"));
  EXPECT_EQ(end("true", {{"PGBATON_FAILPOINTS", "source_removed=kill"}}).code, 128 + SIGKILL);
  EXPECT_EQ(end("true").code, 0);
  EXPECT_EQ(read_file(called), "call\ncall\ncall\n");
  EXPECT_THAT(end("true").out, HasSubstr("already switched over: nothing was changed"));
  EXPECT_EQ(read_file(called), "call\ncall\ncall\n") << "not when all is done";
}

}  // namespace
}  // namespace pgbaton::testing
