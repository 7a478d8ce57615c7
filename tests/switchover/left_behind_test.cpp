// Rows that the replica does not carry: a switchover that would leave them on the closed side is refused, in both
// directions, unless the settings allow it by name.
#include <fstream>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LeftBehindTest : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table t (id int primary key); insert into t select generate_series(1, 10);"
        "create table keyless (a int, v int); insert into keyless select i, i from generate_series(1, 50) i;"
        "create table old_updates (a int); insert into old_updates values (1); update old_updates set a = 2;"
        "create table excluded (id int primary key);"
        "create unlogged table cache (id int); create unlogged table idle (id int)");
    clone_until_caught_up({"--keyless", "insert-only", "--exclude-table", "excluded"});
    config_ = make_run_directory("left_behind") + "/config.yaml";
  }
  ToolResult switch_over(const std::string& settings, const Arguments& more = {}) {
    std::ofstream(config_) << "switchover:\n  gap: 1000\n" << settings;
    Arguments all{"--config", config_};
    all.insert(all.end(), more.begin(), more.end());
    return run("switchover", all);
  }
  static void update_keyless(Cluster& server) {
    const auto counted = server.number("select n_tup_upd from pg_stat_user_tables where relname = 'keyless'");
    server.exec("update keyless set v = v + 1000 where a <= 10");
    ASSERT_TRUE(server.wait_until("select n_tup_upd from pg_stat_user_tables where relname = 'keyless'",
                                  std::to_string(counted + 10)));
  }
  static bool open(Cluster& server) {
    try {
      server.exec("insert into t values (-1); delete from t where id = -1");
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  std::string config_;
};

TEST_F(LeftBehindTest, WhatWouldStayOnTheClosedSideIsRefusedUnlessItIsAllowed) {
  const auto excluded = switch_over("");
  EXPECT_EQ(excluded.code, 3) << excluded;
  EXPECT_THAT(excluded.err, HasSubstr(R"("public"."excluded": is not part of the replica, and not on the target)"));
  EXPECT_THAT(excluded.err, HasSubstr("allow-left-behind: ['\"public\".\"excluded\"']")) << "in the hint";
  EXPECT_THAT(excluded.err, Not(HasSubstr("idle"))) << "it has no rows";
  EXPECT_THAT(excluded.err, Not(HasSubstr(R"(old_updates": differs)"))) << "they were before the copy";
  source().exec("create table later (id int primary key); insert into later values (1); insert into cache values (1)");
  update_keyless(source());
  const auto all = switch_over("  allow-left-behind: excluded\n", {"--dry-run"});
  EXPECT_EQ(all.code, 3) << all;
  EXPECT_THAT(all.out, HasSubstr(R"(blocker  table.left_behind  "public"."later")"));
  EXPECT_THAT(all.out, HasSubstr(R"(blocker  table.skipped  "public"."cache")"));
  EXPECT_THAT(all.out, HasSubstr(R"(blocker  table.insert_only  "public"."keyless")"));
  EXPECT_THAT(all.out, HasSubstr("differs in 20 rows"));
  EXPECT_THAT(all.out, HasSubstr(R"(warning  table.left_behind  "public"."excluded")"));
  EXPECT_TRUE(open(source()));
  ASSERT_EQ(run("resync", {"keyless"}).code, 0);
  ASSERT_EQ(run("resync", {"--add", "later"}).code, 0);
  // The counters stay, the rows are equal; what comes after the comparison is seen before the flip.
  const std::string allowed = "  allow-left-behind: [excluded, 'public.c*']\n";
  const auto psql = Cluster::bin_directory(15) + "/psql -qX -d '" + source().conninfo() + "' -c ";
  const auto meanwhile = switch_over(allowed + "  hook-before: >-\n    " + psql + "'update keyless set v = -v'\n");
  EXPECT_EQ(meanwhile.code, 3) << meanwhile;
  EXPECT_THAT(meanwhile.err, HasSubstr("step flip")) << meanwhile;
  EXPECT_THAT(meanwhile.err, HasSubstr(R"("public"."keyless" has had UPDATEs or DELETEs meanwhile)"));
  EXPECT_TRUE(open(source()));
  ASSERT_EQ(run("resync", {"keyless"}).code, 0);
  const auto done = switch_over(allowed + "  verify: full\n");
  ASSERT_EQ(done.code, 0) << done;
  EXPECT_EQ(target().number("select count(*) from keyless where v < 0"), 50);
  // The way back.
  target().exec("create table made_here (id int primary key); insert into made_here values (1)");
  update_keyless(target());
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  const auto back = switch_over("", {"--rollback"});
  EXPECT_EQ(back.code, 3) << back;
  EXPECT_THAT(back.err, HasSubstr(R"("public"."made_here")"));
  EXPECT_THAT(back.err, HasSubstr(R"("public"."keyless")"));
  EXPECT_TRUE(open(target()));
  const auto as_it_is = switch_over("  allow-left-behind: ['*.*']\n", {"--rollback"});
  EXPECT_EQ(as_it_is.code, 0) << as_it_is;
  EXPECT_TRUE(open(source()));
  EXPECT_FALSE(open(target()));
}

}  // namespace
}  // namespace pgbaton::testing
