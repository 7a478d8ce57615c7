#include "../../../src/copy/copy_plan.hpp"

#include <gmock/gmock.h>
#include <pgbaton/base/rate_limit.hpp>

#include "../../../src/copy/archive_objects.hpp"
#include "../../../src/copy/sequence_value.hpp"

namespace pgbaton::copy {
namespace {

catalog::Column column(const std::string& name, catalog::Oid type, char generated = ' ') {
  catalog::Column result;
  result.name = name;
  result.type_oid = type;
  result.generated = generated;
  return result;
}

catalog::Table table(std::vector<catalog::Column> columns) {
  catalog::Table result;
  result.name = {"Sp a.C", "a\"b.c"};
  result.columns = std::move(columns);
  return result;
}

TEST(CopyPlan, BinaryForTheSameBuiltInTypes) {
  const auto t = table({column("id", 23), column("x\"y", 25)});
  const auto plan = plan_copy(t, {'r', false, {{"x\"y", 25, true}, {"id", 23, true}}}, true);
  EXPECT_TRUE(plan.binary);
  EXPECT_EQ(plan.read, R"(COPY "Sp a.C"."a""b.c" ("id", "x""y") TO STDOUT (FORMAT binary))");
  EXPECT_EQ(plan.write, R"(COPY "Sp a.C"."a""b.c" ("id", "x""y") FROM STDIN (FORMAT binary, FREEZE))");
  EXPECT_EQ(plan.clear, R"(TRUNCATE ONLY "Sp a.C"."a""b.c")");
}

TEST(CopyPlan, TextWhereOneTypeDiffersOrMeansSomethingElse) {
  const auto t = table({column("id", 23)});
  EXPECT_FALSE(plan_copy(t, {'r', false, {{"id", 20, true}}}, true).binary);
  EXPECT_FALSE(plan_copy(t, {'r', false, {{"id", 23, false}}}, true).binary);
  EXPECT_FALSE(plan_copy(t, {'r', false, {{"id", 23, true}}}, false).binary);
}

TEST(CopyPlan, GeneratedAndGuardColumnsAreNotCopied) {
  const auto t = table({column("g", 23, 's'), column("id", 23), column(std::string(kGuardColumn), 3220)});
  const auto plan = plan_copy(t, {'r', false, {{"g", 23, true}, {"id", 23, true}}}, true);
  ASSERT_EQ(plan.columns.size(), 1u);
  EXPECT_EQ(plan.columns[0]->name, "id");
}

TEST(CopyPlan, NoFreezeWhereTruncateIsNotPossible) {
  const auto t = table({column("id", 23)});
  const auto referenced = plan_copy(t, {'r', true, {{"id", 23, true}}}, true);
  EXPECT_EQ(referenced.clear, R"(DELETE FROM ONLY "Sp a.C"."a""b.c")");
  EXPECT_THAT(referenced.write, ::testing::Not(::testing::HasSubstr("FREEZE")));
  const auto partitioned = plan_copy(t, {'p', false, {{"id", 23, true}}}, true);
  EXPECT_EQ(partitioned.clear, R"(TRUNCATE "Sp a.C"."a""b.c")");
  EXPECT_THAT(partitioned.write, ::testing::Not(::testing::HasSubstr("FREEZE")));
  EXPECT_EQ(plan_copy(t, {'p', true, {{"id", 23, true}}}, true).clear, R"(DELETE FROM "Sp a.C"."a""b.c")")
      << "its rows are in its partitions";
}

TEST(CopyPlan, ATableWithoutColumnsIsCounted) {
  const auto t = table({column("g", 23, 's')});
  const auto plan = plan_copy(t, {'r', false, {}}, true);
  EXPECT_TRUE(plan.columnless);
  EXPECT_EQ(plan.read, R"(SELECT count(*) FROM ONLY "Sp a.C"."a""b.c")");
}

TEST(CopyPlan, AMissingColumnIsNamed) {
  try {
    plan_copy(table({column("id", 23)}), {'r', false, {{"ID", 23, true}}}, true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::rejected);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("\"id\""));
    EXPECT_EQ(error.table(), R"("Sp a.C"."a""b.c")");
  }
}

catalog::Sequence sequence(std::int64_t last, std::int64_t increment, bool called = true, bool cycles = false) {
  return {{"public", "s"}, last, increment, -100, 100, called, cycles};
}

TEST(SequenceValue, FollowsTheIncrementAndTheLimits) {
  EXPECT_EQ(advanced_value(sequence(10, 1), 0), 10);
  EXPECT_EQ(advanced_value(sequence(10, 5), 3), 25);
  EXPECT_EQ(advanced_value(sequence(10, -5), 3), -5);
  EXPECT_EQ(advanced_value(sequence(100, 1), 0), 100);
  EXPECT_EQ(advanced_value(sequence(100, 1), 1), std::nullopt);
  EXPECT_EQ(advanced_value(sequence(-98, -1, true, true), 3), std::nullopt);
  EXPECT_EQ(advanced_value(sequence(10, 5, false), 1000), 10) << "never called: stays so";
  EXPECT_EQ(advanced_value(sequence(10, INT64_MAX), 2), std::nullopt) << "no overflow";
}

TEST(RateLimit, RestsForWhatIsAboveTheRate) {
  RateLimit limit(1000);
  const auto start = Clock::now();
  EXPECT_EQ(limit.book(50, start), Milliseconds(0)) << "within the burst";
  EXPECT_EQ(limit.book(1050, start), Milliseconds(1000));
  EXPECT_EQ(limit.book(500, start + Milliseconds(1000)), Milliseconds(500));
  EXPECT_EQ(limit.book(1100, start + Milliseconds(10'000)), Milliseconds(1000))
      << "a pause saves nothing up but the burst";
  RateLimit none(0);
  EXPECT_EQ(none.book(1'000'000'000, start), Milliseconds(0));
}

TEST(TextArray, QuotesEveryElement) {
  EXPECT_EQ(text_array({}), "{}");
  EXPECT_EQ(text_array({"a", "b,\"c\\", ""}), R"({"a","b,\"c\\",""})");
}

}  // namespace
}  // namespace pgbaton::copy
