// S53: a table rewritten on the source before its turn in the copy looks empty to the old snapshot, and COPY of it
// "succeeds" with no rows. It must get a boundary of its own.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

struct Rewrite {
  const char* name;
  const char* statement;
  const char* on_target;  // DDL that a person repeats on the target when the tool stops for schema drift (exit 8)
};
void PrintTo(const Rewrite& rewrite, std::ostream* out) {
  *out << rewrite.name;
}

class ChangedBeforeTheSnapshotTest : public PairTest {};

class RewriteTest : public PairTest, public ::testing::WithParamInterface<Rewrite> {};

INSTANTIATE_TEST_SUITE_P(
    Kind, RewriteTest,
    ::testing::Values(
        Rewrite{"alter_type", "alter table late alter n type bigint", "alter table late alter n type bigint"},
        Rewrite{"volatile_default", "alter table late add column extra double precision default random()",
                "alter table late add column extra double precision"},
        Rewrite{"truncate", "truncate late; insert into late select i, 5, 'again' from generate_series(1, 77) i",
                nullptr},
        Rewrite{"vacuum_full", "vacuum full late", nullptr}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(RewriteTest, S53_RewrittenBeforeItsTurn) {
  create_filled("early", 40'000);
  create_filled("late", 2'000);
  source().exec("create table bystander (id int primary key); insert into bystander select generate_series(1, 50)");
  auto clone = start("clone", {"--until", "caught-up", "--jobs", "1", "--max-rate", "3MB"});
  ASSERT_TRUE(wait_copying("early")) << clone.err();
  ASSERT_EQ(target().number("select count(*) from late"), 0);
  source().exec(GetParam().statement);
  source().exec("update late set n = 9 where id in (1, 2, 3); delete from late where id = 4");
  auto result = clone.wait();
  if (result.code == 8 && GetParam().on_target != nullptr) {
    EXPECT_THAT(result.err, ::testing::HasSubstr("late")) << "the drifted table is named";
    target().exec(GetParam().on_target);
    result = run("clone", {"--until", "caught-up"});
  }
  ASSERT_EQ(result.code, 0) << result;
  expect_equal_after_drain({.types = false});
  EXPECT_GT(target().number("select count(*) from late"), 70);
}

// Between the description of the tables and the snapshot lies the wait for open transactions.
TEST_F(ChangedBeforeTheSnapshotTest, ColumnsAddedAndDroppedAreCopiedAsTheSnapshotHasThem) {
  create_filled("added", 100);
  create_filled("dropped", 100);
  source().exec("create table other (id int primary key)");
  Session open(source().conninfo());
  open.exec("begin; insert into other values (1)");
  auto clone = start("clone", {"--until", "caught-up"});
  ASSERT_TRUE(source().wait_until("select count(*) from pg_replication_slots", "1", Milliseconds(30'000)))
      << clone.err();
  source().exec(
      "alter table added add column extra int default 0; update added set extra = id; "
      "alter table dropped drop column pad");
  open.exec("commit");
  const auto result = clone.wait();
  ASSERT_EQ(result.code, 0) << result;
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
