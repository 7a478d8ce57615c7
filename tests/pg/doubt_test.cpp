// DDL that sends nothing: a table that it may have left different is named, and kept from passing for whole, until a
// comparison, a resync or a person settles it.
#include "doubt_fixture.hpp"

#include <nlohmann/json.hpp>

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The rows differ though every change is applied; verify, resync and finish judge by the rows.
TEST_F(DoubtTest, S38_RowsThatARewriteChangedAreNotTakenForProven) {
  for (const std::string name : {"using_same", "remade", "exchanged", "harmless", "resynced"})
    source().exec("create table " + name + " (id int primary key, v int, w int); insert into " + name +
                  " select i, i, -i from generate_series(1, 50) i");
  clone_until_caught_up();
  source().exec(
      "alter table using_same alter v type int using v * 10; "
      "alter table remade drop v; alter table remade add v int default 42; "
      "alter table exchanged rename v to x; alter table exchanged rename w to v; alter table exchanged rename x to w; "
      "alter table resynced alter v type int using v + 1; "
      "alter table harmless alter v type int; alter table harmless alter w set statistics 50");
  source().exec("vacuum full harmless");
  follow();
  EXPECT_THAT(doubts(), AllOf(HasSubstr("using_same unproven"), HasSubstr("remade unproven"),
                              HasSubstr("exchanged unproven"), HasSubstr("resynced unproven")));
  const auto status = nlohmann::json::parse(run("status", {"--json"}).out);
  EXPECT_GE(status.at("doubts").size(), 4U);
  EXPECT_THAT(run("status").out, HasSubstr("IN DOUBT"));

  auto refused = run("finish");
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("HINT"), HasSubstr("verify")));
  EXPECT_THAT(doubts(), Not(HasSubstr("harmless"))) << "finish has compared it";
  EXPECT_EQ(run("resync", {"resynced"}).code, 0);
  EXPECT_THAT(doubts(), Not(HasSubstr("resynced")));
  auto result = run("verify");
  EXPECT_EQ(result.code, 6) << result;
  EXPECT_THAT(result.out, HasSubstr("was altered on the source"));
  result = run("verify", {"--repair"});
  result = run("verify");
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(doubts(), IsEmpty());
  EXPECT_EQ(run("finish").code, 0);
  expect_equal();
}

// A table that was altered before the replica is ready keeps it from becoming ready.
TEST_F(DoubtTest, ReadyWaitsForWhatIsInDoubt) {
  source().exec("create table t (id int primary key, v int); insert into t select i, i from generate_series(1, 50) i");
  ASSERT_EQ(run("clone").code, 0);
  source().exec("alter table t alter v type int using v * 10");
  const auto followed = follow();
  EXPECT_THAT(followed.err, HasSubstr("not ready"));
  EXPECT_THAT(run("status").out, HasSubstr("not ready yet: \"public\".\"t\""));
  EXPECT_EQ(run("finish").code, 3);
  const auto refused = run("resync", {"t"});
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("Run `pgbaton verify --repair` first"));
  EXPECT_EQ(run("verify", {"--include-table", "t", "--repair"}).code, 0);
  follow();
  EXPECT_EQ(run("finish").code, 0);
  expect_equal();
}

// Blue and green: the changes must not go into the table that has the name now.
TEST_F(DoubtTest, S38_TablesExchangedByRenameStopTheStream) {
  source().exec(
      "create table orders (id int primary key, v text); insert into orders select i, 'old' from generate_series(1, 5) "
      "i; create table orders_new (id int primary key, v text); insert into orders_new select i, 'new' from "
      "generate_series(1, 5) i");
  clone_until_caught_up();
  source().exec("begin; alter table orders rename to orders_old; alter table orders_new rename to orders; commit");
  EXPECT_EQ(run("finish").code, 8);
  source().exec("update orders set v = 'fresh' where id = 1; insert into orders_old values (6, 'late')");
  for (int i = 0; i < 2; ++i) {
    const auto stopped = run("follow", drain());
    ASSERT_EQ(stopped.code, 8) << stopped;
    EXPECT_THAT(stopped.err, HasSubstr("was renamed on the source"));
    target().exec(statements(stopped));
  }
  follow();
  expect_equal_after_drain();
  EXPECT_EQ(run("finish").code, 0);
}

// A change from before a rename or a new type comes while the target has the column as it is now.
TEST_F(DoubtTest, S38_ColumnsAlteredBetweenTwoChangesOfOneTransaction) {
  source().exec(
      "create table t (id int primary key, v int); insert into t select i, i from generate_series(1, 5) i; "
      "create table u (id int primary key, v int); insert into u select i, i from generate_series(1, 5) i; "
      "create table w (id int primary key, v int); insert into w select i, i from generate_series(1, 5) i");
  clone_until_caught_up();
  const auto stop_mend_and_go_on = [&] {
    const auto stopped = run("follow", drain());
    ASSERT_EQ(stopped.code, 8) << stopped;
    target().exec(statements(stopped));
    follow();
    expect_equal_after_drain();
  };
  source().exec("begin; update t set v = v + 100; alter table t rename v to vv; insert into t values (200, 2); commit");
  stop_mend_and_go_on();
  source().exec(
      "begin; update u set v = v + 100; alter table u alter v type text; update u set v = v || 'x' where id = 1; "
      "insert into u values (200, 'q'); commit");
  stop_mend_and_go_on();
  // The name is another column's by now, and both were mended before the backlog is applied.
  source().exec(
      "update w set v = v + 100 where id < 3; alter table w rename v to x; alter table w add v int; "
      "insert into w values (300, 3, 4)");
  target().exec("alter table w rename v to x; alter table w add v int");
  follow();
  expect_equal_after_drain();
  EXPECT_EQ(run("verify").code, 0);
  EXPECT_EQ(run("finish").code, 0);
}

// While behind, the column that is sent need not be the one that the source has today.
TEST_F(DoubtTest, S38_AColumnThatCameAndWentIsNotAddedBlindly) {
  source().exec("create table t (id int primary key, a int); insert into t select i, i from generate_series(1, 3) i");
  clone_until_caught_up();
  source().exec(
      "alter table t add c int default 1; insert into t values (100, 1, 77); alter table t drop c; "
      "alter table t add c int default 2; insert into t values (101, 1, 88)");
  const auto stopped = run("follow", drain({"--drift", "add-columns"}));
  ASSERT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("a former column of this name"));
  target().exec("alter table t add c int");
  follow({"--drift", "add-columns"});
  EXPECT_EQ(run("finish").code, 3);
  run("verify", {"--repair"});
  EXPECT_EQ(run("verify").code, 0);
  EXPECT_EQ(run("finish").code, 0);
  expect_equal();
}

TEST_F(DoubtTest, S34_PartitionsDetachedAttachedAndNew) {
  source().exec(
      "create table p (k int, r text, v int, primary key (k, r)) partition by list (r); "
      "create table p_a partition of p for values in ('a'); create table p_b partition of p for values in ('b'); "
      "insert into p select i, case when i % 2 = 0 then 'a' else 'b' end, i from generate_series(1, 10) i; "
      "create table other (k int not null, r text not null, v int, primary key (k, r)); "
      "insert into other select i, 'c', i from generate_series(1, 10) i; "
      // No key at the root: only its leaf is published.
      "create table q (id int, r int) partition by range (r); create table q1 partition of q for values from (0) to "
      "(10); alter table q1 add primary key (id); insert into q values (1, 1)");
  clone_until_caught_up();
  source().exec("alter table p attach partition other for values in ('c'); insert into p values (77, 'c', 1)");
  const auto attached = follow();
  EXPECT_THAT(doubts(), HasSubstr("is a partition of \"public\".\"p\" on the source"));
  EXPECT_EQ(run("verify").code, 6);
  EXPECT_EQ(run("finish").code, 8);
  // The guard's default of a leaf must not be that of the root's next rows, so the column goes with it.
  target().exec(between(attached.err, "on the target: ", "\n"));
  follow();
  EXPECT_THAT(doubts(), Not(HasSubstr("other")));

  source().exec("alter table p detach partition p_b; update p_b set v = -1 where k = 1; delete from p_b where k = 3");
  follow();
  EXPECT_THAT(doubts(), HasSubstr("p_b differs: is in no publication"));
  const auto refused = run("finish");
  EXPECT_EQ(refused.code, 8) << refused;
  EXPECT_THAT(refused.err, HasSubstr("in no publication"));
  source().exec("alter table p attach partition p_b for values in ('b'); insert into p values (78, 'b', 1)");
  follow();
  EXPECT_THAT(doubts(), HasSubstr("p_b unproven: was "));
  EXPECT_EQ(run("finish").code, 3);
  EXPECT_EQ(run("resync", {"p_b"}).code, 0);
  EXPECT_THAT(doubts(), IsEmpty());

  source().exec("alter table p detach partition p_a; drop table p_a");
  follow();
  EXPECT_THAT(doubts(), HasSubstr("p_a differs: was dropped on the source; on the target it is a partition"));
  EXPECT_EQ(run("finish").code, 8);
  target().exec("drop table p_a");
  follow();
  EXPECT_THAT(doubts(), IsEmpty());

  source().exec(
      "create table q2 partition of q for values from (10) to (20); alter table q2 add primary key (id); "
      "insert into q values (2, 12)");
  follow({"--drift", "add-columns"});
  EXPECT_THAT(doubts(), HasSubstr("q2 differs: is a new partition of \"public\".\"q\" and not part of this replica"));
  EXPECT_EQ(run("finish").code, 8);
  const auto forced = run("finish", {"--force"});
  EXPECT_EQ(forced.code, 0) << forced;
  EXPECT_THAT(forced.err, HasSubstr("in no publication"));
}

// DDL after which no row comes: nothing but the catalogs tells.
TEST_F(DoubtTest, S38_DdlWithoutARowAfterIt) {
  for (const std::string name : {"added", "renamed", "retyped", "whole", "parent", "child", "moved", "was_unlogged"})
    source().exec("create " + std::string(name == "was_unlogged" ? "unlogged " : "") + "table " + name +
                  " (id int primary key, v int); insert into " + name + " select i, i from generate_series(1, 5) i");
  source().exec(
      "alter table whole replica identity full; "
      "create table p (id int, r int, primary key (id, r)) partition by list (r); create table p1 partition of p for "
      "values in (1); create table q (id int, r int, primary key (id, r)) partition by list (r); create table q2 "
      "partition of q for "
      "values in (2)");
  clone_until_caught_up();
  source().exec(
      "alter table added add c int default 3; alter table renamed rename v to w; "
      "alter table retyped alter v type bigint; alter table child inherit parent; "
      "alter table p detach partition p1; alter table q attach partition p1 for values in (1); "
      "alter table was_unlogged set logged");
  follow();
  for (int i = 0; i < 2; ++i) {  // it stays found
    const auto found = doubts();
    for (const std::string what : {"added differs: lacks column \"c\"",
                                   "renamed differs: has column \"w\" on the source, which the target "
                                   "calls \"v\"",
                                   "retyped differs: has column \"v\" as bigint",
                                   "child differs: is a child of "
                                   "\"public\".\"parent\"",
                                   "p1 differs: is a partition of \"public\".\"q\"", "was_unlogged differs"})
      EXPECT_THAT(found, HasSubstr(what));
    EXPECT_EQ(run("finish").code, 8);
    EXPECT_EQ(run("verify", {"--include-table", "child"}).code, 6);
  }
  for (auto* cluster : {&source(), &target()}) cluster->exec("drop table was_unlogged");
  run_remedies();
  follow();
  EXPECT_EQ(run("verify").code, 0);
  EXPECT_THAT(doubts(), Not(HasSubstr("differs")));

  // Rows that agree in the target's key may be different ones on the source by now.
  source().exec(
      "alter table whole drop constraint whole_pkey; alter table whole add primary key (id, v); "
      "insert into whole values (1, 7); update whole set v = 8 where v = 7");
  EXPECT_NE(run("follow", drain()).code, 0) << "the target's key does not take both";
  target().exec("alter table whole drop constraint whole_pkey; alter table whole add primary key (id, v)");
  follow();

  // Renamed on both sides, the table is known by its new name; renamed back on one, it differs.
  for (auto* cluster : {&source(), &target()}) cluster->exec("alter table moved rename to renamed_twice");
  follow();
  target().exec("update renamed_twice set v = -1 where id = 2");
  EXPECT_EQ(run("verify", {"--include-table", "renamed_twice", "--repair"}).code, 0);
  EXPECT_EQ(run("resync", {"renamed_twice"}).code, 0);
  source().exec("alter table renamed_twice rename to moved");
  EXPECT_EQ(run("finish").code, 8);
  target().exec("alter table renamed_twice rename to moved");
  EXPECT_EQ(run("finish").code, 0);
  expect_equal();
}

TEST_F(DoubtTest, TablesMadeAgainGeneratedColumnsAndNewTables) {
  source().exec(
      "create table d (id int primary key); create table g (id int primary key, a int); insert into g values (1, 2)");
  clone_until_caught_up();
  source().exec("create table later (id int primary key); insert into later values (1)");
  source().exec("alter table g add c int generated always as (a * 2) stored; insert into g values (2, 3)");
  auto refused = run("finish");
  EXPECT_EQ(refused.code, 8) << refused;
  EXPECT_THAT(refused.err, HasSubstr("lacks the generated column \"c\" on the target"));
  target().exec(between(refused.err, "HINT: on the target: ", ". --force"));
  follow();
  EXPECT_THAT(doubts(), Not(HasSubstr("generated")));
  source().exec("drop table d; create table d (id int primary key); insert into d values (1)");
  refused = run("finish");
  EXPECT_EQ(refused.code, 8) << refused;
  EXPECT_THAT(refused.err, HasSubstr("was dropped and made again"));
  source().exec("drop table d");
  follow();
  const auto finished = run("finish", {"--json"});
  EXPECT_EQ(finished.code, 0) << finished;
  EXPECT_THAT(finished.out, HasSubstr("not_carried"));
  EXPECT_THAT(finished.out, HasSubstr("later"));
  EXPECT_EQ(target().scalar("select string_agg(c::text, ',' order by id) from g"), "4,6");
}

}  // namespace
}  // namespace pgbaton::testing
