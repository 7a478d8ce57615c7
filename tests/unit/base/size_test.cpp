#include <gtest/gtest.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/size.hpp>

namespace pgbaton {
namespace {

TEST(Size, Parses) {
  EXPECT_EQ(parse_size("0", "x"), 0u);
  EXPECT_EQ(parse_size("17", "x"), 17u);
  EXPECT_EQ(parse_size("17B", "x"), 17u);
  EXPECT_EQ(parse_size("8kB", "x"), 8192u);
  EXPECT_EQ(parse_size("8KB", "x"), 8192u);
  EXPECT_EQ(parse_size("256MB", "x"), 268435456u);
  EXPECT_EQ(parse_size("3GB", "x"), 3221225472u);
  EXPECT_EQ(parse_size("1TB", "x"), 1ull << 40);
  EXPECT_EQ(parse_size("16777215TB", "x"), 16777215ull << 40);
}

TEST(Size, RefusesEverythingElse) {
  for (const auto* text : {"", "MB", "-1MB", "1.5GB", "1 MB", "1M", "1PB", "16777216TB", "99999999999999999999999"}) {
    try {
      parse_size(text, "--memory");
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << text;
      EXPECT_TRUE(e.message().starts_with("--memory: ")) << e.message();
    }
  }
}

TEST(Size, Formats) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1.0 kB");
  EXPECT_EQ(format_size(1536), "1.5 kB");
  EXPECT_EQ(format_size(1024 * 1024 - 1), "1.0 MB");
  EXPECT_EQ(format_size(746586112), "712 MB");
  EXPECT_EQ(format_size(~0ull), "16777216 TB");
}

}  // namespace
}  // namespace pgbaton
