#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <pgbaton/pg/endpoint.hpp>

#include "../../../src/pg/conninfo.hpp"

namespace pgbaton::pg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

TEST(Conninfo, ParsesStringsUrisAndBareNames) {
  EXPECT_THAT(parse_conninfo("host=h dbname='a b' password=p\\'q", Side::source),
              testing::UnorderedElementsAre(Pair("host", "h"), Pair("dbname", "a b"), Pair("password", "p'q")));
  EXPECT_THAT(parse_conninfo("postgresql://u:p%40x@h:1/d?sslmode=require", Side::source),
              testing::UnorderedElementsAre(Pair("host", "h"), Pair("port", "1"), Pair("user", "u"),
                                            Pair("password", "p@x"), Pair("dbname", "d"), Pair("sslmode", "require")));
  EXPECT_THAT(parse_conninfo("orders", Side::source), ElementsAre(Pair("dbname", "orders")));
  EXPECT_TRUE(parse_conninfo("  ", Side::source).empty());
}

TEST(Conninfo, BuildIsTheInverseOfParse) {
  const ConninfoItems items{{"user", "it's"}, {"dbname", "a \\ b"}};
  EXPECT_THAT(parse_conninfo(build_conninfo(items), Side::local), testing::UnorderedElementsAreArray(items));
}

TEST(Conninfo, AnErrorNeverShowsThePassword) {
  for (const auto* conninfo :
       {"host=h password=top secret", "password='top secret", "postgresql://u:top secret@h:x/d?y",
        "postgresql://u:secret@[::1/d", "password=a secret=b", "passwort=secret", "postgresql://u:%zzsecret@h/d",
        // What libpq reads, but as host, port or database.
        "postgres://u:p@secret@h/d", "postgres://u:p@secret:x@h:1/d", "postgres://u:p/secret@h:1/d",
        "postgres://u:1/secret@h:1/d", "u:secret@h/d", "postgress://u:secret@h/d", "mysql://secret@h/d",
        "dbname=postgres://u:secret@h/d", "dbname='host=h password=secret'", "host=h port=secret@h", "host=x@secret",
        "password=a 'secret", "password=a sec\"ret", "password='a' se\"cret", "password=\"a secret\"x"}) {
    try {
      parse_conninfo(conninfo, Side::target);
      ADD_FAILURE() << conninfo;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_EQ(e.side(), Side::target);
      EXPECT_THAT(e.describe() + e.hint(), Not(HasSubstr("secret")));
    }
    EXPECT_THAT(redact(conninfo), Not(HasSubstr("secret")));
  }
}

TEST(Conninfo, ASlipInAKeywordIsNamedAndAPieceOfAPasswordIsNot) {
  const auto told = [](const std::string& conninfo) {
    try {
      parse_conninfo(conninfo, Side::source);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(told("hst=h dbname=d"), HasSubstr("there is no keyword \"hst\"; did you mean host?"));
  EXPECT_THAT(told("host=h databse=d passwrd=x"), Not(HasSubstr("passwrd")));
  EXPECT_THAT(told("host=h password=my secret=x"), Not(HasSubstr("secret")));
  EXPECT_THAT(told("host=h password=my S3cret=x"), Not(HasSubstr("S3cret")));
}

TEST(Conninfo, UnusualOnesAreRead) {
  for (const auto* conninfo :
       {"host=@abstract,/tmp port=5432,5433", "postgresql://u%40x:p%2F%40@h1:1,h2:2/d?user=me@there", "dbname=a@b",
        "postgresql:///d?host=/tmp", "host=h user=a@b password=c@d://e", "postgresql://u:p#q!$@[::1]:1/d", "my-orders"})
    EXPECT_NO_THROW(parse_conninfo(conninfo, Side::source)) << conninfo;
}

TEST(Conninfo, RedactDropsSecrets) {
  EXPECT_EQ(redact("host=h password=secret sslpassword=secret2"), "host=h");
  EXPECT_THAT(redact("postgres://u:secret@h/d?password=secret"), Not(HasSubstr("secret")));
  EXPECT_EQ(redact("orders"), "dbname=orders");
  EXPECT_EQ(redact("dbname='my orders' password='x y'"), "dbname='my orders'");
}

TEST(Conninfo, ShellWordSurvivesAShell) {
  EXPECT_EQ(shell_word("orders"), "orders");
  EXPECT_EQ(shell_word("host=h dbname=d"), "'host=h dbname=d'");
  EXPECT_EQ(shell_word("dbname='my $x'"), R"('dbname='\''my $x'\''')");
  EXPECT_EQ(shell_word(""), "''");
}

class ServiceFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "pgbaton_service_test.conf";
    std::ofstream(path_) << "[blue]\nhost=/nowhere\nconnect_timeout=77\noptions=-c work_mem=1MB\n";
    ::setenv("PGSERVICEFILE", path_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("PGSERVICEFILE");
    ::unsetenv("PGOPTIONS");
    std::remove(path_.c_str());
  }
  std::string path_;
};

TEST_F(ServiceFile, WhatAServiceGivesIsKept) {
  const auto effective = effective_items("service=blue dbname=d");
  EXPECT_EQ(find_item(effective, "host"), "/nowhere");
  EXPECT_EQ(find_item(effective, "dbname"), "d");
  const auto ours = session_items({Side::source, "", "r", "UTF8"}, "copy-1", effective);
  EXPECT_EQ(find_item(ours, "connect_timeout"), "") << "not overridden";
  EXPECT_THAT(find_item(ours, "options"), testing::StartsWith("-c work_mem=1MB -c datestyle=ISO,MDY"));
}

TEST_F(ServiceFile, AnUnknownServiceIsLeftToTheConnect) {
  EXPECT_EQ(find_item(effective_items("service=none dbname=d"), "dbname"), "d");
}

TEST_F(ServiceFile, EnvironmentIsKeptToo) {
  ::setenv("PGOPTIONS", "-c geqo=off", 1);
  const auto ours = session_items({Side::source, "", "r", "UTF8"}, "x", effective_items("dbname=d"));
  EXPECT_THAT(find_item(ours, "options"), testing::StartsWith("-c geqo=off -c datestyle=ISO,MDY"));
}

TEST(SessionItems, NamesTheRoleAndSetsWhatTheUserDidNot) {
  const Endpoint endpoint{Side::source, "dbname=d keepalives=0 connect_timeout=3", "blue", "LATIN1"};
  const auto ours = session_items(endpoint, "copy-3", effective_items(endpoint.conninfo));
  EXPECT_EQ(find_item(ours, "application_name"), "pgbaton/blue/copy-3");
  EXPECT_EQ(find_item(ours, "client_encoding"), "LATIN1");
  EXPECT_EQ(find_item(ours, "keepalives"), "");
  EXPECT_EQ(find_item(ours, "connect_timeout"), "");
  EXPECT_EQ(find_item(ours, "tcp_user_timeout"), "60000");
}

std::string environment_of(const ChildConnection& child, const std::string& name) {
  for (const auto& [key, value] : child.environment) {
    if (key == name) return value;
  }
  return {};
}

TEST(ChildConnection, SecretsGoIntoTheEnvironment) {
  const auto child = child_connection({Side::source, "postgres://u:secret@h/d", "blue", "UTF8"}, "pg_dump");
  EXPECT_THAT(child.conninfo, Not(HasSubstr("secret")));
  EXPECT_THAT(child.conninfo, HasSubstr("host=h"));
  EXPECT_THAT(child.conninfo, HasSubstr("dbname=d"));
  EXPECT_EQ(environment_of(child, "PGPASSWORD"), "secret");
  EXPECT_EQ(environment_of(child, "PGAPPNAME"), "pgbaton/blue/pg_dump");
  EXPECT_THAT(environment_of(child, "PGOPTIONS"), HasSubstr("-c statement_timeout=0"));
}

TEST(ChildConnection, UsersOptionsStay) {
  const auto child = child_connection(
      {Side::source, "dbname=d options='-c geqo=off' application_name=mine", "blue", "UTF8"}, "pg_dump");
  EXPECT_EQ(environment_of(child, "PGOPTIONS"), "");
  EXPECT_EQ(environment_of(child, "PGPASSWORD"), "");
  EXPECT_THAT(child.conninfo, HasSubstr("options='-c geqo=off -c datestyle=ISO,MDY"));
  EXPECT_THAT(child.conninfo, Not(HasSubstr("mine")));
}

TEST(Pins, EscapeBlanksAndDependOnTheVersion) {
  EXPECT_THAT(pinned_startup_options(), HasSubstr("-c default_transaction_isolation=read\\ committed "));
  EXPECT_THAT(pinned_startup_options(), HasSubstr("-c search_path= "));
  const std::string idle = "SET idle_session_timeout = 0", transaction = "SET transaction_timeout = 0";
  EXPECT_THAT(pinned_statements(130022), Not(testing::Contains(idle)));
  EXPECT_THAT(pinned_statements(140000), testing::Contains(idle));
  EXPECT_THAT(pinned_statements(160000), Not(testing::Contains(transaction)));
  EXPECT_THAT(pinned_statements(170000), testing::Contains(transaction));
}

}  // namespace
}  // namespace pgbaton::pg
