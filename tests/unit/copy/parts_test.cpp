#include <gtest/gtest.h>
#include <pgbaton/copy/parts.hpp>

namespace pgbaton::copy {
namespace {

catalog::Table table(std::uint64_t bytes, std::uint64_t heap_blocks) {
  catalog::Table table;
  table.bytes = bytes;
  table.heap_blocks = heap_blocks;
  table.columns.emplace_back();
  return table;
}
constexpr SplitRule kRule{.above = 1'000'000, .jobs = 2, .source_version = 150000};

TEST(Parts, RangesMeetAndTheLastIsOpen) {
  const auto ranges = plan_parts(table(10'000'001, 1'234), kRule);
  ASSERT_EQ(ranges.size(), 11u);
  EXPECT_EQ(ranges.front().first, 0);
  for (std::size_t i = 0; i + 1 < ranges.size(); ++i) {
    ASSERT_TRUE(ranges[i].end.has_value());
    EXPECT_LT(ranges[i].first, *ranges[i].end);
    EXPECT_EQ(*ranges[i].end, ranges[i + 1].first);
  }
  EXPECT_FALSE(ranges.back().end.has_value());
}

TEST(Parts, ToastCountsButABlockIsNotDivided) {
  EXPECT_EQ(plan_parts(table(50'000'000, 7), kRule).size(), 7u);
  EXPECT_EQ(plan_parts(table(50'000'000, 0), kRule).size(), 1u);
}

TEST(Parts, ThereIsACeiling) {
  EXPECT_EQ(plan_parts(table(1'000'000'000'000, 122'000'000), kRule).size(), 1024u);
}

TEST(Parts, InOnePieceWhereSplittingGainsNothing) {
  const auto pieces = [](const catalog::Table& t, const SplitRule& rule) { return plan_parts(t, rule).size(); };
  const auto big = table(10'000'000, 1'000);
  EXPECT_EQ(pieces(table(1'000'000, 100), kRule), 1u);
  EXPECT_EQ(pieces(big, {.above = 0, .jobs = 2, .source_version = 150000}), 1u);
  EXPECT_EQ(pieces(big, {.above = 1'000'000, .jobs = 1, .source_version = 150000}), 1u);
  EXPECT_EQ(pieces(big, {.above = 1'000'000, .jobs = 2, .source_version = 130000}), 1u);
  auto root = big, bare = big;
  root.kind = 'p';
  bare.columns.clear();
  EXPECT_EQ(pieces(root, kRule), 1u);
  EXPECT_EQ(pieces(bare, kRule), 1u);
}

}  // namespace
}  // namespace pgbaton::copy
