#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/control.hpp>

namespace pgbaton::pg {
namespace {

template <typename Exception>
Error converted(const Exception& exception) {
  try {
    control(Side::source, "reading the slot", [&] { throw exception; });
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::failed, "nothing was thrown");
}

// libpqxx tells of a lost connection in words of its own insides, and not always as broken_connection.
TEST(Control, ALostConnectionIsSaidInOurWords) {
  for (const auto& error :
       {converted(pqxx::failure("Could not obtain client encoding.")),
        converted(pqxx::broken_connection("No connection to database")),
        converted(pqxx::broken_connection("Could not reactivate connection; reactivation is inhibited"))}) {
    EXPECT_EQ(error.describe(), "reading the slot: the connection to the source was lost (source)");
    EXPECT_EQ(error.action(), Action::retry);
    EXPECT_THAT(error.hint(), testing::HasSubstr("check that the server runs"));
  }
}

TEST(Control, WhatTheServerSaidIsKept) {
  const auto error = converted(pqxx::broken_connection("server closed the connection unexpectedly\n\tThis probably …"));
  EXPECT_EQ(error.message(), "reading the slot: server closed the connection unexpectedly");
}

TEST(Control, OtherFailuresOfTheLibraryAreBugs) {
  EXPECT_EQ(converted(pqxx::usage_error("Column number out of range")).action(), Action::bug);
}

}  // namespace
}  // namespace pgbaton::pg
