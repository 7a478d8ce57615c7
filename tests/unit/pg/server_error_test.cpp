#include "../../../src/pg/server_error.hpp"

#include <gtest/gtest.h>

namespace pgbaton::pg {
namespace {

TEST(OneLine, KeepsMessageAndDetail) {
  EXPECT_EQ(one_line("ERROR:  no such table\nLINE 1: select\n        ^\nHINT:  look\n"), "no such table");
  EXPECT_EQ(one_line("ERROR:  duplicate\nDETAIL:  Key (id)=(1) already exists.\n"),
            "duplicate (Key (id)=(1) already exists.)");
  EXPECT_EQ(one_line("server closed the connection unexpectedly\n\tThis probably means…\n"),
            "server closed the connection unexpectedly");
  EXPECT_EQ(one_line(""), "");
}

TEST(KeyOfDetail, TakesWhatTheServerNames) {
  EXPECT_EQ(key_of_detail("Key (id)=(7) already exists."), "(id)=(7)");
  EXPECT_EQ(key_of_detail("Key (a, b)=(1, x (y)) is not present in table \"p\"."), "(a, b)=(1, x (y))");
  EXPECT_EQ(key_of_detail("Failing row contains (1, null)."), "");
  EXPECT_EQ(key_of_detail(""), "");
}

TEST(ConnectError, ReadsTheSqlstateInAnyLanguage) {
  const auto error = connect_error(
      "connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  28P01: Passwort-Authentifizierung für Benutzer "
      "»x« fehlgeschlagen\nLOCATION:  auth_failed, auth.c:335\n",
      Side::target, "apply");
  EXPECT_EQ(error.sqlstate(), "28P01");
  EXPECT_EQ(error.action(), Action::stop);
  EXPECT_EQ(error.kind(), ErrorKind::failed);
  EXPECT_EQ(error.message(),
            "connecting (apply): connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  "
            "Passwort-Authentifizierung für Benutzer »x« fehlgeschlagen");
}

TEST(ConnectError, RetriesWhatPasses) {
  for (const auto* message :
       {"connection to server at \"h\" (10.0.0.1), port 5432 failed: Connection refused\n\tIs the server running on "
        "that "
        "host and accepting TCP/IP connections?\n",
        "connection to server at \"h\", port 5432 failed: FATAL:  57P03: the database system is starting up\n",
        "connection to server at \"h\", port 5432 failed: FATAL:  53300: sorry, too many clients already\n",
        "connection to server at \"h\", port 5432 failed: timeout expired\n",
        "could not translate host name \"h\" to address: Temporary failure in name resolution\n",
        "connection to server at \"h\", port 5432 failed: server closed the connection unexpectedly\n\tThis probably "
        "means the server terminated abnormally\n\tbefore or while processing the request.\n",
        ""}) {
    EXPECT_EQ(connect_error(message, Side::source, "slot").action(), Action::retry) << message;
  }
}

TEST(ConnectError, HintsAtTheCauseThatLibpqNames) {
  const std::string at = "connection to server at \"h\", port 5432 failed: ";
  const std::vector<std::pair<std::string, std::string>> cases{
      {at + "fe_sendauth: no password supplied", ".pgpass"},
      {at + "server does not support SSL, but SSL was required", "ssl = on"},
      {at + "certificate present, but not private key file \"k\"", "sslkey"},
      {at + "SSL error: certificate verify failed", "sslrootcert"},
      {"definition of service \"x\" not found", "service="},
      {"invalid sslmode value: \"sometimes\"", "Correct this value"},
      {"could not match 2 port numbers to 3 hosts", "ports"},
      {at + "channel binding is required, but server did not offer it", "channel_binding"},
      {"could not translate host name \"h\" to address: Name or service not known", "resolve"},
      {at + "session is read-only", "target_session_attrs"},
      {at + "timeout expired", "firewalls"},
      {at + "Connection refused", "host and port are right"}};
  for (const auto& [message, hint] : cases)
    EXPECT_NE(connect_error(message + "\n", Side::source, "slot").hint().find(hint), std::string::npos)
        << message << ": " << connect_error(message + "\n", Side::source, "slot").hint();
}

TEST(ConnectError, StopsAtWhatDoesNot) {
  for (const auto* message :
       {"connection to server at \"h\", port 5432 failed: FATAL:  28000: no pg_hba.conf entry for host\n",
        "connection to server at \"h\", port 5432 failed: FATAL:  3D000: database \"d\" does not exist\n",
        "connection to server at \"h\", port 5432 failed: fe_sendauth: no password supplied\n",
        "connection to server at \"h\", port 5432 failed: server does not support SSL, but SSL was required\n",
        "invalid sslmode value: \"sometimes\"\n", "definition of service \"x\" not found\n"}) {
    EXPECT_EQ(connect_error(message, Side::source, "slot").action(), Action::stop) << message;
  }
}

// sslmode=prefer tries twice, several hosts once each: a line of each.
TEST(ConnectError, OneAttemptThatMayPassDecides) {
  const auto both = connect_error(
      "connection to server at \"a\", port 1 failed: FATAL:  28P01: no\nconnection to server at \"b\", port 1 failed: "
      "FATAL:  57P03: starting up\n",
      Side::source, "slot");
  EXPECT_EQ(both.action(), Action::retry);
  EXPECT_EQ(both.sqlstate(), "57P03");
}

}  // namespace
}  // namespace pgbaton::pg
