// Doubts by what the catalogs say of types, partitions and columns of trees, and by what an earlier comparison found.
#include "doubt_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Whoever did not read what verify has said is told by finish.
TEST_F(DoubtTest, WhatVerifyFoundStaysUntilItIsMended) {
  source().exec(
      "create table t (id int primary key, v int); insert into t select i, i from generate_series(1, 50) i; "
      "create table u (id int primary key, v int); insert into u select i, i from generate_series(1, 50) i");
  clone_until_caught_up();
  target().exec("update t set v = -1 where id <= 3; delete from u where id = 7");
  EXPECT_EQ(run("verify", {"--where", "id > 2 and id < 5"}).code, 6);
  EXPECT_THAT(doubts(),
              AllOf(HasSubstr("t unproven: was found to differ by `verify`: 1 row at "), Not(HasSubstr("u "))));
  EXPECT_EQ(run("verify").code, 6);
  EXPECT_THAT(doubts(), AllOf(HasSubstr("t unproven: was found to differ by `verify`: 3 rows at "),
                              HasSubstr("u unproven: "), Not(HasSubstr(" 1 row at 0/0"))));
  EXPECT_THAT(run("status").out, HasSubstr("was found to differ by `verify`"));
  const auto refused = run("finish");
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("verify --repair"));
  target().exec("update t set v = id where id <= 3");
  EXPECT_EQ(run("verify", {"--where", "id > 10", "--include-table", "t"}).code, 6) << "not the whole table";
  EXPECT_EQ(run("verify", {"--include-table", "t"}).code, 0);
  EXPECT_THAT(doubts(), AllOf(Not(HasSubstr("t unproven")), HasSubstr("u unproven")));
  target().exec("update t set v = -1 where id <= 3");
  EXPECT_EQ(run("verify", {"--repair", "--include-table", "t"}).code, 0);
  EXPECT_THAT(doubts(), Not(HasSubstr("t unproven")));
  target().exec("insert into u values (7, 7)");
  EXPECT_EQ(run("finish").code, 0) << "it compares by itself";
  expect_equal();
}

// The stream stops at such a row for ever, and so would the one that resync drives.
TEST_F(DoubtTest, UniqueValuesThatChangedPlacesOnTheTargetAreCopiedAgain) {
  source().exec(
      "create table t (id int primary key, u int unique, v text); insert into t select i, i, i from "
      "generate_series(1, 20) i");
  clone_until_caught_up();
  target().exec("update t set u = -u; update t set u = case when id = 20 then 1 else id + 1 end");
  source().exec("update t set v = 'w' where id = 1");
  const auto stopped = run("follow", drain());
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("`pgbaton resync` of the table copies it again"));
  const auto copied = run("resync", {"t"});
  EXPECT_EQ(copied.code, 0) << copied;
  expect_equal_after_drain();
}

// USING a cast would fail, or give wrong values.
TEST_F(DoubtTest, S38_ColumnsOfOtherTypesThatExchangedNamesOrWereMadeAgain) {
  source().exec(
      "create table t (id int primary key, a int, c text); insert into t select i, i, 'c' || i from "
      "generate_series(1, 5) i; create table u (id int primary key, c text); insert into u values (1, 'c1'); "
      "create table quiet (id int primary key, c text); insert into quiet values (1, 'c1'); "
      "create schema old; create table old.moved (id int primary key); "
      "create table one (id int primary key, v text default 'one'); create table two (id int primary key, v text "
      "default "
      "'two'); create table three (id int primary key, v text default 'three'); create table one__was (id int)");
  clone_until_caught_up();
  source().exec(
      "begin; alter table t rename a to x; alter table t rename c to a; alter table t rename x to c; commit; "
      "update t set c = 9 where id = 1; alter table u drop c; alter table u add c int default 5; insert into u values "
      "(2, "
      "2); alter table quiet drop c; alter table quiet add c int; alter schema old rename to new; insert into "
      "new.moved "
      "values (1); begin; alter table one rename to x; alter table two rename to one; alter table three rename to two; "
      "alter table x rename to three; commit; insert into one values (1); insert into two values (2); insert into "
      "three "
      "values (3)");
  int stops = 0;
  for (auto stopped = run("follow", drain()); stopped.code != 0; stopped = run("follow", drain())) {
    ASSERT_EQ(stopped.code, 8) << stopped;
    ASSERT_LT(++stops, 10) << stopped;
    ASSERT_NO_THROW(target().exec(statements(stopped))) << stopped;
  }
  EXPECT_GE(stops, 5);
  EXPECT_THAT(doubts(), HasSubstr("quiet differs: has column \"c\" as integer on the source and text on the target"));
  run_remedies();
  EXPECT_EQ(run("verify", {"--repair"}).code, 0);
  expect_equal();
  EXPECT_EQ(run("finish").code, 0) << doubts();
}

// Nothing but the catalogs tells that old rows read differently, or that new ones would not fit.
TEST_F(DoubtTest, S38_TypesOfColumnsThatAreAltered) {
  source().exec(
      "create type mood as enum ('a', 'b'); create type sorted as enum ('x', 'y'); create type own as enum ('o'); "
      "create type called as enum ('c'); create type comp as (x int, y int); create type outer_comp as (i comp, n "
      "int); "
      "create type lost as (p int, q text); create domain moods as mood; create domain small as int check (value < "
      "100); "
      "create type span as range (subtype = float8); "
      "create table en (id int primary key, m mood, list mood[], d moods); insert into en values (1, 'a', '{b}', 'b'); "
      "create table s (id int primary key, v sorted, o own); insert into s values (1, 'x', 'o'); "
      "create table k (id int primary key, v called); insert into k values (1, 'c'); "
      "create table co (id int primary key, c comp, o outer_comp[]); insert into co values (1, (1, 2), array[((3, 4), "
      "5)::outer_comp]); create table l (id int primary key, c lost); insert into l values (1, (1, 'q')); "
      "create table dom (id int primary key, v small, r span); insert into dom values (1, 5, '[1,2]'); "
      "create table col (id int primary key, t text); insert into col values (1, 'a')");
  clone_until_caught_up();
  target().exec("alter type own add value 'mine'");
  follow();
  EXPECT_THAT(doubts(), IsEmpty()) << "a label that only the target has";
  source().exec("alter type mood rename value 'b' to 'bb'");
  source().exec("alter type mood add value 'zero' before 'a'");
  source().exec(
      "alter type sorted rename value 'x' to 'x2'; alter type sorted rename value 'y' to 'x'; alter type sorted rename "
      "value 'x2' to 'y'; alter type called rename to named; alter type comp add attribute z int; alter type comp "
      "rename "
      "attribute y to yy; alter type lost drop attribute p; alter domain small drop constraint small_check; "
      "alter domain small add constraint positive check (value > 0); alter table col alter t type text collate \"C\"");
  follow();
  const auto found = doubts();
  for (const std::string what :
       {"en differs: uses the type \"public\".\"mood\": the target calls its label 'bb' 'b', the target lacks its "
        "label "
        "'zero'",
        "en unproven: uses the type \"public\".\"mood\"",
        "s differs: uses the type \"public\".\"sorted\": on the target its label 'x' stands where the source has 'y'",
        "k differs: uses the type \"public\".\"named\", which the target calls \"public\".\"called\"",
        "co differs: uses the type \"public\".\"comp\": the target calls its attribute \"yy\" \"y\", the target lacks "
        "its attribute \"z\"",
        "l differs: uses the type \"public\".\"lost\": the target has an attribute \"p\" more",
        "dom differs: uses the type \"public\".\"small\": the target has its constraint \"small_check\" alone, the "
        "target lacks its constraint \"positive\"",
        "col differs: has column \"t\" as text COLLATE pg_catalog.\"C\" on the source and text on the target"})
    EXPECT_THAT(found, HasSubstr(what));
  EXPECT_EQ(run("finish").code, 8);
  EXPECT_EQ(run("verify").code, 6);
  run_remedies();
  target().exec(
      "alter type sorted rename value 'x' to 'x2'; alter type sorted rename value 'y' to 'x'; alter type sorted rename "
      "value 'x2' to 'y'");
  source().exec("insert into en values (2, 'zero', '{bb,zero}', 'bb'); insert into co values (2, (1, 2, 3), null)");
  follow();
  EXPECT_THAT(doubts(), AllOf(Not(HasSubstr("differs: ")), HasSubstr("unproven")));
  EXPECT_EQ(run("finish").code, 0) << doubts();
  expect_equal();
}

TEST_F(DoubtTest, S34_PartitionsWithOtherBoundsUnloggedForAMomentAndColumnsOfTheRoot) {
  source().exec(
      "create table p (k int, r text, v int, primary key (k, r)) partition by list (r); "
      "create table p_a partition of p for values in ('a'); create table p_d partition of p default; "
      "create table p_e partition of p for values in ('e'); create table p_f partition of p for values in ('f'); "
      "create table empty (k int, r text, v int, g int generated always as (v * 3) stored, primary key (k, r)) "
      "partition by list (r); "
      "insert into p values (1, 'a', 1), (2, 'c', 2), (3, 'e', 3), (4, 'f', 4); "
      "create table parent (id int primary key, v int); create table child (primary key (id)) inherits (parent); "
      "insert into child values (1, 1)");
  clone_until_caught_up();
  follow();  // the first look
  source().exec(
      "begin; alter table p detach partition p_a; alter table p attach partition p_a for values in ('a', 'b'); commit; "
      "alter table p_e set unlogged; insert into p values (5, 'e', 5); alter table p_e set logged; truncate p_f");
  follow();
  source().exec("alter table p add g int generated always as (v * 3) stored; alter table parent add c int");
  follow();
  const auto found = doubts();
  for (const std::string what :
       {"p_a differs: is a partition FOR VALUES IN ('a', 'b') on the source and FOR VALUES IN ('a') on the target",
        "p_e unproven: was rewritten on the source", "p_a differs: lacks the generated column \"g\"",
        "parent differs: lacks column \"c\""})
    EXPECT_THAT(found, HasSubstr(what));
  EXPECT_THAT(found, AllOf(Not(HasSubstr("p_f unproven: was rewritten")), Not(HasSubstr("p_d differs")),
                           Not(HasSubstr("child differs"))));
  EXPECT_EQ(run("finish").code, 8);
  run_remedies();
  EXPECT_EQ(run("finish").code, 3) << "the row that was written while p_e was unlogged";
  EXPECT_EQ(run("verify", {"--repair"}).code, 0);

  // To a root that has no guard column on the target; and out of the replica, on both sides.
  source().exec(
      "alter table p detach partition p_e; alter table empty attach partition p_e for values in ('e'); "
      "insert into empty values (6, 'e', 6); alter table p detach partition p_f; insert into p_f values (7, 'f', 7)");
  follow();
  EXPECT_EQ(run("finish").code, 8);
  run_remedies();  // they detach p_f there, too
  follow();
  EXPECT_THAT(doubts(),
              AllOf(HasSubstr("p_f outside: was detached"), Not(HasSubstr("differs")), Not(HasSubstr("p_f unproven"))));
  const auto finished = run("finish");
  EXPECT_EQ(finished.code, 0) << finished << doubts();
  EXPECT_THAT(finished.out, AllOf(HasSubstr("NOT THERE"), HasSubstr("p_f")));
  source().exec("delete from p_f where k = 7");
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
