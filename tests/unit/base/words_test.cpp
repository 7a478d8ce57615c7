#include <gtest/gtest.h>
#include <pgbaton/base/words.hpp>

namespace pgbaton {
namespace {

TEST(Words, NumbersStandWithTheirNouns) {
  EXPECT_EQ(counted(0, "table"), "0 tables");
  EXPECT_EQ(counted(1, "table"), "1 table");
  EXPECT_EQ(counted(1234567, "row"), "1,234,567 rows");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(2, "entry", "entries"), "2 entries");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(on_one_line(" a\n  and b\n"), "a and b");
}

}  // namespace
}  // namespace pgbaton
