#include <gtest/gtest.h>

#include <pgbaton/base/error.hpp>

namespace pgbaton {
namespace {

// The numbers are the contract of the command line (exit table of the README).
TEST(Error, ExitCodes) {
  EXPECT_EQ(exit_code(ErrorKind::failed), 1);
  EXPECT_EQ(exit_code(ErrorKind::usage), 2);
  EXPECT_EQ(exit_code(ErrorKind::preflight), 3);
  EXPECT_EQ(exit_code(ErrorKind::boundary_lost), 4);
  EXPECT_EQ(exit_code(ErrorKind::timed_out), 5);
  EXPECT_EQ(exit_code(ErrorKind::differences), 6);
  EXPECT_EQ(exit_code(ErrorKind::held_elsewhere), 7);
  EXPECT_EQ(exit_code(ErrorKind::rejected), 8);
}

TEST(Error, KindsHaveTheirNames) {
  EXPECT_EQ(to_string(ErrorKind::boundary_lost), "boundary_lost");
  EXPECT_EQ(to_string(ErrorKind::held_elsewhere), "held_elsewhere");
}

TEST(Error, DescribesOnlyWhatIsKnown) {
  EXPECT_EQ(Error(ErrorKind::failed, "no luck").describe(), "no luck");
  const auto error = Error(ErrorKind::rejected, "duplicate key")
                         .side(Side::target)
                         .sqlstate("23505")
                         .table("\"public\".\"t\"")
                         .key("(id)=(7)")
                         .lsn(Lsn{0x15})
                         .hint("Remove the row.")
                         .action(Action::stop);
  EXPECT_EQ(error.describe(), "duplicate key (target, SQLSTATE 23505, table \"public\".\"t\", key (id)=(7), LSN 0/15)");
  EXPECT_EQ(error.hint(), "Remove the row.");
  EXPECT_TRUE(error.has_hint());
  EXPECT_EQ(Error(ErrorKind::failed, "x").lsn(Lsn{1}).describe(), "x (LSN 0/1)");
}

TEST(Error, DescribesInOneLine) {
  EXPECT_EQ(Error(ErrorKind::failed, "gone\n\tThis probably means\r\n\tmore  of it\n").side(Side::target).describe(),
            "gone This probably means more  of it (target)");
}

TEST(Error, ContextGoesInFrontWhileUnwinding) {
  try {
    try {
      throw Error(ErrorKind::failed, "gone");
    } catch (Error& e) {
      e.context("reading the slot").side(Side::source);
      e.context("follow");
      throw;
    }
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "follow: reading the slot: gone");
    EXPECT_EQ(e.side(), Side::source);
  }
}

TEST(Error, RemembersWhereItWasThrown) {
  const Error error(ErrorKind::failed, "x");
  EXPECT_NE(std::string(error.where().file_name()).find("error_test.cpp"), std::string::npos);
}

}  // namespace
}  // namespace pgbaton
