#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/source/history.hpp>

namespace pgbaton::source {
namespace {

TEST(TimelineHistoryTest, LinesAreAncestorsWithTheirEnds) {
  const auto found = parse_timeline_history(
      "1\t0/3000148\tno recovery target specified\n"
      "\n# a comment\n"
      "  2\t1A/B0\tafter LSN 1A/B0\n"
      "3\tFF/FFFFFFFF");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].timeline, 1u);
  EXPECT_EQ(found[0].switch_lsn, Lsn{0x3000148});
  EXPECT_EQ(found[1].timeline, 2u);
  EXPECT_EQ(found[1].switch_lsn, (Lsn{0x1A000000B0}));
  EXPECT_EQ(found[2].switch_lsn, (Lsn{0xFFFFFFFFFF}));
  EXPECT_TRUE(parse_timeline_history("").empty());
}

TEST(TimelineHistoryTest, WhatCannotBeReadIsRefused) {
  for (const auto* text : {"1", "x\t0/1\treason", "1\t0/\treason", "1\tzero\treason", "0\t0/1\treason", "-1\t0/1"}) {
    EXPECT_THROW(parse_timeline_history(text), Error) << text;
  }
}

}  // namespace
}  // namespace pgbaton::source
