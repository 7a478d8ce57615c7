#include <gtest/gtest.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/lsn.hpp>

namespace pgbaton {
namespace {

TEST(Lsn, PrintsAsPostgresDoes) {
  EXPECT_EQ(to_string(Lsn{}), "0/0");
  EXPECT_EQ(to_string(Lsn{0x16B374D848}), "16/B374D848");
  EXPECT_EQ(to_string(Lsn{0x100000000}), "1/0");
  EXPECT_EQ(to_string(Lsn{~0ull}), "FFFFFFFF/FFFFFFFF");
}

TEST(Lsn, ParsesWhatItPrints) {
  for (const auto value : {0ull, 1ull, 0x16B374D848ull, 0x100000000ull, ~0ull}) {
    EXPECT_EQ(parse_lsn(to_string(Lsn{value})), Lsn{value});
  }
  EXPECT_EQ(parse_lsn("a/00ff"), Lsn{0xA000000FF});
}

TEST(Lsn, RefusesEverythingElse) {
  for (const auto* text : {"", "/", "1/", "/1", "1", "1/2/3", "1/2 ", " 1/2", "0x1/2", "123456789/0", "0/123456789",
                           "-1/2", "1/+2", "g/0"}) {
    EXPECT_EQ(parse_lsn(text), std::nullopt) << text;
  }
}

TEST(Lsn, ComparesByPosition) {
  EXPECT_LT(Lsn{0xFFFFFFFF}, Lsn{0x100000000});
  EXPECT_FALSE(Lsn{});
  EXPECT_TRUE(Lsn{1});
}

TEST(Lsn, RequireNamesWhatWasWrong) {
  EXPECT_EQ(require_lsn("0/A", "--until-lsn"), Lsn{10});
  try {
    require_lsn("soon", "--until-lsn");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_EQ(e.message(), "--until-lsn: \"soon\" is not an LSN");
    EXPECT_FALSE(e.hint().empty());
  }
}

}  // namespace
}  // namespace pgbaton
