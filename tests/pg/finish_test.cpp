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

// A trigger that comes with finish would fire for changes that are applied afterwards.
TEST_F(FinishTest, InterruptedBehindTheTriggersItAppliesNoMore) {
  source().exec(
      "create table stamped (id int primary key, n int default 0); create function stamp() returns trigger language "
      "plpgsql as $$ begin new.n := new.n + 1; return new; end $$; create trigger stamp before insert or update on "
      "stamped for each row execute function stamp(); insert into stamped values (1)");
  clone_as_owner();
  Arguments finish{"finish", "--source", source().conninfo(), "--target", target().conninfo("shop", "app")};
  const auto killed = Tool::run(finish, Milliseconds(60'000), {{"PGBATON_FAILPOINTS", "finish_deferred=kill"}});
  ASSERT_EQ(killed.code, 137) << killed;
  source().exec("insert into stamped values (2)");
  const auto follow = as_owner("follow", {"--until", "caught-up"});
  EXPECT_EQ(follow.code, 3) << follow;
  EXPECT_THAT(follow.err, ::testing::HasSubstr("Run `pgbaton finish` again"));
  const auto again = as_owner("finish");
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_EQ(target().scalar("select string_agg(s::text, ' ') from stamped s", "shop"), "(1,1)");
  EXPECT_EQ(foreign_keys(), 1);
}

// Nothing of it is in the stream; the end is the last moment to tell.
TEST_F(FinishTest, SaysWhatMayDifferAllTheSame) {
  source().exec(
      "create table keyless (n int); insert into keyless values (1); create materialized view seen as select count(*) "
      "from keyless");
  clone_until_caught_up({"--keyless", "insert-only"});
  source().exec("update keyless set n = 2; select lo_from_bytea(0, 'x')");
  ASSERT_TRUE(source().wait_until("select n_tup_upd from pg_stat_user_tables where relname = 'keyless'", "1"));
  const auto result = run("finish");
  EXPECT_EQ(result.code, 0) << result;
  for (const auto* words :
       {R"(BUT  "public"."keyless" has had 1 UPDATE and)", "BUT  1 large object on the source and 0 on",
        R"(REFRESH MATERIALIZED VIEW "public"."seen";)"})
    EXPECT_THAT(result.out, ::testing::HasSubstr(words));
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
