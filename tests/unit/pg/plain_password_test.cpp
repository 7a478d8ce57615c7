#include <gmock/gmock.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/pg/plain_password.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace pgbaton::pg {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PlainPasswordTest : public ::testing::Test {
 protected:
  void TearDown() override {
    allow_plain_password({});
    ::unsetenv("PGPASSFILE");
    ::unsetenv("PGPASSWORD");
    ::unsetenv("PGSSLMODE");
  }
  static std::string mode(const std::string& conninfo) { return forced_sslmode(conninfo, Side::source); }
  static std::string refusal(const std::string& conninfo) {
    try {
      return "not refused: " + mode(conninfo);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(error.side(), Side::source);
      return error.message() + " HINT " + error.hint();
    }
  }
};

TEST_F(PlainPasswordTest, OnlyOtherMachinesAreOtherHosts) {
  EXPECT_THAT(other_hosts("", ""), IsEmpty());
  EXPECT_THAT(other_hosts("/run/postgresql,@abstract,localhost,127.0.0.1,127.8.8.8,::1", ""), IsEmpty());
  EXPECT_THAT(other_hosts("db1,127.0.0.1.example.com,/tmp,127.0.0.1", ""), ElementsAre("db1", "127.0.0.1.example.com"));
  EXPECT_THAT(other_hosts("db1", "127.0.0.1"), IsEmpty()) << "the address is where it goes";
  EXPECT_THAT(other_hosts("localhost", "10.0.0.7"), ElementsAre("localhost"));
  EXPECT_THAT(other_hosts("", "10.0.0.7"), ElementsAre("10.0.0.7"));
  allow_plain_password({"db1", "10.0.0.7"});
  EXPECT_THAT(other_hosts("db1,db2", ""), ElementsAre("db2"));
  EXPECT_THAT(other_hosts("", "10.0.0.7"), IsEmpty());
}

TEST_F(PlainPasswordTest, APasswordMakesTlsRequired) {
  for (const std::string host : {"host=db1", "hostaddr=192.0.2.1", "host=/tmp,db1"}) {
    EXPECT_EQ(mode(host + " password=x"), "require");
    EXPECT_EQ(mode(host + " password=x sslmode=prefer"), "require");
    EXPECT_EQ(mode(host + " password=x sslmode=allow"), "require");
    EXPECT_EQ(mode(host + " password=x sslmode=require"), "");
    EXPECT_EQ(mode(host + " password=x sslmode=verify-full"), "");
    EXPECT_EQ(mode(host), "") << "nothing to be read on the way";
    EXPECT_EQ(mode(host + " sslmode=disable"), "");
  }
  EXPECT_EQ(mode("postgresql://u:x@db1/shop"), "require");
  EXPECT_EQ(mode("host=127.0.0.1 password=x"), "");
  EXPECT_EQ(mode("host=127.0.0.1 password=x sslmode=disable"), "");
}

TEST_F(PlainPasswordTest, WhereverThePasswordComesFrom) {
  ::setenv("PGPASSWORD", "x", 1);
  EXPECT_EQ(mode("host=db1"), "require");
  ::unsetenv("PGPASSWORD");
  const auto file = ::testing::TempDir() + "/plain_password_test." + std::to_string(::getpid());
  std::ofstream(file) << "db1:*:*:*:from-the-file\n";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  ::setenv("PGPASSFILE", file.c_str(), 1);
  EXPECT_EQ(mode("host=db1 user=u"), "require");
  EXPECT_EQ(mode("host=db2 user=u"), "");
  ::setenv("PGSSLMODE", "disable", 1);
  EXPECT_THAT(refusal("host=db1 user=u"), HasSubstr("db1"));
  std::remove(file.c_str());
}

TEST_F(PlainPasswordTest, DisablingTlsIsRefusedUnlessTheHostIsAllowedByName) {
  EXPECT_THAT(refusal("host=db1,db2 password=hunter2 sslmode=disable"),
              AllOf(HasSubstr("db1, db2"), HasSubstr("allow_plain_password: [db1]"), HasSubstr("verify-full"),
                    Not(HasSubstr("hunter2"))));
  allow_plain_password({"db1"});
  EXPECT_THAT(refusal("host=db1,db2 password=hunter2 sslmode=disable"), HasSubstr("would go to db2 without"));
  EXPECT_EQ(mode("host=db1 password=x sslmode=disable"), "");
  EXPECT_EQ(mode("host=db1 password=x"), "");
}

TEST_F(PlainPasswordTest, ChildrenGetTheSameMode) {
  const Endpoint endpoint{Side::source, "host=db1 user=u password=hunter2 sslmode=prefer", "r"};
  const auto child = child_connection(endpoint, "pg_dump");
  EXPECT_THAT(child.conninfo, AllOf(HasSubstr("sslmode=require"), Not(HasSubstr("prefer")), Not(HasSubstr("hunter2"))));
}

}  // namespace
}  // namespace pgbaton::pg
