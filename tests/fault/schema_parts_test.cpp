// Definitions that do not fit into one transaction: a kill between two of them leaves a part of the schema on the
// target.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SchemaPartsTest : public PairTest {
 protected:
  // A lock table so small that one transaction may restore 50 objects.
  ClusterOptions target_options() const override {
    return {.settings = {
                {"max_locks_per_transaction", "10"}, {"max_connections", "30"}, {"max_prepared_transactions", "0"}}};
  }
  void create_tables() {
    auto session = source().session();
    session.exec(
        "create type colour as enum ('red', 'blue'); create sequence free start 5; "
        "create function twice(int) returns int immutable language sql as 'select 2 * $1'");
    for (int i = 100; i < 320; ++i) {
      const auto name = "t" + std::to_string(i);
      session.exec("create table " + name +
                   " (id int primary key, c colour, n int default public.twice(4)); insert into " + name +
                   " select j, 'red', j from generate_series(1, 3) j");
    }
    session.exec("create view reds as select * from t150 where c = 'red'");
  }
  long long tables_on_target() { return target().number("select count(*) from pg_tables where schemaname = 'public'"); }
  ToolResult clone(const std::string& failpoints, const Arguments& more = {}) {
    Arguments all{"--until", "caught-up"};
    all.insert(all.end(), more.begin(), more.end());
    return run("clone", all, {{"PGBATON_FAILPOINTS", failpoints}});
  }
};

TEST_F(SchemaPartsTest, KilledBetweenTwoParts) {
  create_tables();
  EXPECT_EQ(clone("schema_part_restored=kill").code, 137);
  const auto first = tables_on_target();
  EXPECT_GT(first, 0);
  EXPECT_LT(first, 220);
  EXPECT_EQ(status_field("phase"), "copying");
  // What an earlier run restored may be changed on the source before the next one.
  source().exec("alter table t100 add column late text; update t100 set late = 'x'; drop table t101");
  EXPECT_EQ(clone("schema_part_restored=kill").code, 137);
  EXPECT_GT(tables_on_target(), first);
  const auto restart = clone("schema_part_restored=kill", {"--restart"});
  EXPECT_EQ(restart.code, 137) << restart;
  const auto failing = clone("schema_before_commit=stop");
  EXPECT_EQ(failing.code, 1) << failing;
  EXPECT_THAT(failing.err, HasSubstr("kept for the next run"));
  const auto last = clone("");
  ASSERT_EQ(last.code, 0) << last;
  EXPECT_THAT(last.err, Not(HasSubstr("ERROR")));
  const auto finish = run("finish");
  EXPECT_EQ(finish.code, 0) << finish;
  target().exec("drop table if exists t101");  // stays, empty: it was restored before the source dropped it
  expect_equal({.types = true});
  EXPECT_EQ(target().number("select count(*) from reds"), 3);
  EXPECT_EQ(target().scalar("select n from t319 where id = 3"), "3");
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::testing
