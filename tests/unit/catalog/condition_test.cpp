#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/choice.hpp>

namespace pgbaton::catalog {
namespace {

TEST(Condition, StandsInBracketsOfItsOwn) {
  for (const auto* good :
       {"id > 5", "id > 5 -- the new ones", "v = ')' or v = '--'", "v = e'\\') ' and (a)", "\"a)\" = 1", "v = $$)$$",
        "v = $x$ $$ ) $x$", "a /* ( /* ; */ ' */ = 1", "a = any(array[1, 2])", "v = 'it''s (' and b", "a$b = 1",
        "v like '%\\'", "(a) or (b)", "id\n=\n1", "v = 'é)'"})
    EXPECT_NO_THROW(require_condition(good, "where")) << good;
}

TEST(Condition, WhatDoesNotIsRefused) {
  for (const auto* bad :
       {"a) or (b", "(a", "a)", "a /* open", "v = 'open", "\"open", "v = $$open$", "v = $x$open$$", "a; drop table t",
        "", "-- nothing", "/* nothing */", "v = e'\\'", "a /* /* */", "a -- x\n)", "v = 'a' 'b"}) {
    try {
      require_condition(bad, "tables: where of t");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_THAT(error.message(), ::testing::StartsWith("tables: where of t is no condition by itself: ")) << bad;
    }
  }
}

TEST(Condition, MayEndInAComment) {
  EXPECT_EQ(bracketed("a -- b"), "(a -- b\n)");
  EXPECT_EQ(bracketed("a"), "(a)");
}

}  // namespace
}  // namespace pgbaton::catalog
