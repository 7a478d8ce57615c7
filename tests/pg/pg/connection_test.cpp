// pg/ on real servers: connecting and its failures, pins on every major at hand, cancel, replication sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/control.hpp>
#include <thread>

#include "support/cluster.hpp"

namespace pgbaton::pg {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::ClusterOptions;
using ::testing::HasSubstr;
using ::testing::Not;

Endpoint endpoint(const std::string& conninfo) {
  return {Side::source, conninfo, "blue", "UTF8"};
}

// What open() throws.
Error open_failure(const Endpoint& where) {
  try {
    Connection::open(where, "copy-1");
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorKind::failed, "it connected");
}

class ConnectionTest : public ::testing::Test {
 protected:
  Cluster server_;
  Connection open(Session session = Session::plain) {
    return Connection::open(endpoint(server_.conninfo()), "copy-1", session);
  }
  bool nothing_left(const std::string& where) {
    return server_.wait_until(
        "select count(*) from pg_stat_activity where application_name like 'pgbaton/%' and " + where, "0");
  }
};

const std::vector<std::pair<std::string, std::string>> kExpected{{"datestyle", "ISO, MDY"},
                                                                 {"intervalstyle", "postgres"},
                                                                 {"extra_float_digits", "3"},
                                                                 {"bytea_output", "hex"},
                                                                 {"timezone", "UTC"},
                                                                 {"lc_monetary", "C"},
                                                                 {"search_path", ""},
                                                                 {"statement_timeout", "0"},
                                                                 {"lock_timeout", "0"},
                                                                 {"idle_in_transaction_session_timeout", "0"},
                                                                 {"row_security", "off"},
                                                                 {"synchronous_commit", "on"},
                                                                 {"transaction_isolation", "read committed"},
                                                                 {"default_transaction_isolation", "read committed"},
                                                                 {"default_transaction_read_only", "off"},
                                                                 {"default_transaction_deferrable", "off"},
                                                                 {"client_encoding", "UTF8"},
                                                                 {"jit", "off"},
                                                                 {"application_name", "pgbaton/blue/copy-1"}};

class Majors : public ::testing::TestWithParam<int> {};

// Hostile defaults of role and database; neither may reach a session of ours.
TEST_P(Majors, PinsHoldOnEveryKindOfConnection) {
  ASSERT_TRUE(Cluster::available(GetParam())) << "run scripts/postgres " << GetParam();
  Cluster server({.major = GetParam()});
  if (GetParam() >= 14) server.exec("alter role postgres set idle_session_timeout = '5s'");
  server.exec(
      "alter role postgres set statement_timeout = '5s'; alter role postgres set datestyle = 'German, DMY';"
      "alter database postgres set search_path = nowhere; alter role postgres set bytea_output = 'escape';"
      "alter role postgres set default_transaction_isolation = 'serializable';"
      "alter role postgres set row_security = on; alter role postgres set synchronous_commit = off;"
      "alter role postgres set extra_float_digits = 0; alter role postgres set intervalstyle = 'iso_8601';"
      "alter role postgres set timezone = 'Asia/Tokyo'; alter role postgres set default_transaction_read_only = on;");
  ::setenv("PGDATESTYLE", "German, DMY", 1);
  ::setenv("PGTZ", "Asia/Tokyo", 1);
  const auto where = endpoint(server.conninfo());
  auto plain = Connection::open(where, "copy-1");
  auto replication = Connection::open(where, "copy-1", Session::replication);
  auto control_connection = open_control(where, "copy-1");
  pqxx::nontransaction control_session(*control_connection);
  auto expected = kExpected;
  if (GetParam() >= 14) expected.emplace_back("idle_session_timeout", "0");
  if (GetParam() >= 17) expected.emplace_back("transaction_timeout", "0");
  for (const auto& [name, value] : expected) {
    const std::string show = "select current_setting('" + name + "')";
    EXPECT_EQ(plain.exec(show).value(0, 0), value) << name;
    EXPECT_EQ(replication.exec(show).value(0, 0), value) << name << " (replication)";
    EXPECT_EQ(control_session.exec1(show)[0].as<std::string>(), value) << name << " (control)";
  }
  EXPECT_EQ(replication.exec("IDENTIFY_SYSTEM").columns(), 4);
  ::unsetenv("PGDATESTYLE");
  ::unsetenv("PGTZ");
}
INSTANTIATE_TEST_SUITE_P(, Majors, ::testing::Values(12, 13, 14, 15, 16, 17, 18), ::testing::PrintToStringParamName());

TEST_F(ConnectionTest, StatementsErrorsAndNotices) {
  {
    SCOPED_TRACE("UsersOptionsAndEnvironmentStay");
    auto connection = Connection::open(endpoint(server_.conninfo() + " options='-c work_mem=3MB'"), "x");
    EXPECT_EQ(connection.exec("show work_mem").value(0, 0), "3MB");
    EXPECT_EQ(connection.exec("show row_security").value(0, 0), "off");
    ::setenv("PGOPTIONS", "-c work_mem=5MB", 1);
    EXPECT_EQ(open().exec("show work_mem").value(0, 0), "5MB");
    auto control_connection = open_control(endpoint(server_.conninfo()), "x");
    EXPECT_EQ(pqxx::nontransaction(*control_connection).exec1("show work_mem")[0].as<std::string>(), "5MB");
    ::unsetenv("PGOPTIONS");
  }
  {
    SCOPED_TRACE("ParametersNullsAndEmptyTexts");
    auto connection = open();
    const std::string big(5'000'000, 'x');
    const std::vector<Parameter> parameters{std::nullopt, "", "it's", big};
    const auto result =
        connection.exec("select $1::text is null, $2::text = '', $3::text, length($4::text)", parameters);
    EXPECT_EQ(result.value(0, 0), "t");
    EXPECT_EQ(result.value(0, 1), "t");
    EXPECT_EQ(result.value(0, 2), "it's");
    EXPECT_EQ(result.value(0, 3), "5000000");
    EXPECT_EQ(connection.exec("create table public.t as select 1 from generate_series(1, 7)").affected(), 7);
    EXPECT_EQ(connection.exec("delete from public.t").affected(), 7);
    EXPECT_EQ(connection.exec("set work_mem = '1MB'").affected(), 0);
  }
  {
    SCOPED_TRACE("AnErrorNamesWhatTheServerNames");
    auto connection = open();
    connection.exec("create table public.u (id int primary key); insert into public.u values (7)");
    try {
      connection.exec("insert into public.u values (7)");
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::failed);
      EXPECT_EQ(e.sqlstate(), "23505");
      EXPECT_EQ(e.action(), Action::stop);
      EXPECT_EQ(e.table(), "\"public\".\"u\"");
      EXPECT_EQ(e.key(), "(id)=(7)");
      EXPECT_EQ(e.side(), Side::source);
      EXPECT_THAT(e.message(), HasSubstr("Key (id)=(7) already exists."));
    }
    EXPECT_FALSE(connection.in_transaction());
    EXPECT_EQ(connection.exec("select 1; select 2").value(0, 0), "2");
  }
  {
    SCOPED_TRACE("NoticesNeverReachStderr");
    ::testing::internal::CaptureStderr();
    auto connection = open();
    connection.exec("do $$ begin raise warning 'seen by nobody'; end $$");
    auto control_connection = open_control(endpoint(server_.conninfo()), "x");
    pqxx::nontransaction(*control_connection).exec("do $$ begin raise warning 'seen by nobody'; end $$");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  }
}

TEST_F(ConnectionTest, FailuresToConnectAreClassified) {
  const auto unknown_database = open_failure(endpoint(server_.conninfo("nowhere")));
  EXPECT_EQ(unknown_database.sqlstate(), "3D000");
  EXPECT_EQ(unknown_database.action(), Action::stop);
  const auto unknown_role = open_failure(endpoint(server_.conninfo("postgres", "nobody")));
  EXPECT_EQ(unknown_role.sqlstate(), "28000");
  EXPECT_EQ(unknown_role.action(), Action::stop);
  const auto no_ssl = open_failure(endpoint(server_.conninfo() + " sslmode=require"));
  EXPECT_EQ(no_ssl.action(), Action::stop) << no_ssl.message();
  const auto refused = open_failure(endpoint("host=127.0.0.1 port=1 user=postgres"));
  EXPECT_EQ(refused.action(), Action::retry) << refused.message();
  EXPECT_EQ(refused.sqlstate(), "");
  EXPECT_EQ(open_failure(endpoint("host=a,b port=1,2,3")).action(), Action::stop);
  for (const auto& failure : {unknown_database, unknown_role, no_ssl, refused}) {
    EXPECT_EQ(failure.side(), Side::source);
    EXPECT_FALSE(failure.hint().empty());
    EXPECT_THAT(failure.message(), Not(HasSubstr("\n")));
  }
}

TEST_F(ConnectionTest, AWrongPasswordIsFinalAndNotShown) {
  server_.exec("create role guest login password 'right'");
  const auto hba = testing::read_file(server_.data_directory() + "/pg_hba.conf");
  std::ofstream(server_.data_directory() + "/pg_hba.conf") << "host all guest 127.0.0.1/32 scram-sha-256\n" << hba;
  server_.reload();
  const auto with = [&](const std::string& password) {
    return endpoint(server_.conninfo("postgres", "guest") + password);
  };
  ASSERT_TRUE(
      server_.wait_until("select count(*) > 0 from pg_hba_file_rules where auth_method = 'scram-sha-256'", "t"));
  const auto wrong = open_failure(with(" password=wr0ng"));
  EXPECT_EQ(wrong.sqlstate(), "28P01");
  EXPECT_EQ(wrong.action(), Action::stop);
  EXPECT_THAT(wrong.describe(), Not(HasSubstr("wr0ng")));
  EXPECT_EQ(open_failure(with("")).action(), Action::stop);
  EXPECT_NO_THROW(Connection::open(with(" password=right"), "x"));
  try {
    open_control(with(" password=wr0ng"), "x");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.sqlstate(), "28P01");
    EXPECT_EQ(e.action(), Action::stop);
    EXPECT_THAT(e.describe(), Not(HasSubstr("wr0ng")));
  }
}

TEST_F(ConnectionTest, AFullOrStartingServerIsRetried) {
  server_.set("max_connections", "5");
  server_.set("superuser_reserved_connections", "0");
  server_.set("max_wal_senders", "2");
  server_.restart();
  std::vector<Connection> all;
  Error failure(ErrorKind::failed, "");
  for (int i = 0; i < 7 && failure.message().empty(); ++i) {
    try {
      all.push_back(open());
    } catch (const Error& e) {
      failure = e;
    }
  }
  EXPECT_EQ(failure.sqlstate(), "53300");
  EXPECT_EQ(failure.action(), Action::retry);
}

TEST_F(ConnectionTest, AHostThatDoesNotAnswerEndsInTime) {
  // A listening socket that nobody accepts from.
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const auto port = std::to_string(ntohs(address.sin_port));
  const auto begin = Clock::now();
  const auto failure = open_failure(endpoint("host=127.0.0.1 connect_timeout=2 user=postgres port=" + port));
  EXPECT_EQ(failure.action(), Action::retry);
  EXPECT_THAT(failure.message(), HasSubstr("no answer in time"));
  EXPECT_LT(Clock::now() - begin, 4s);
  // The next host of a list is tried after the time-out of the first.
  auto second = Connection::open(
      endpoint("host=127.0.0.1,127.0.0.1 connect_timeout=2 user=postgres dbname=postgres port=" + port + "," +
               std::to_string(server_.port())),
      "x");
  EXPECT_EQ(second.exec("select 1").value(0, 0), "1");
  ::close(listener);
}

TEST_F(ConnectionTest, ALostConnectionIsRetried) {
  auto connection = open();
  server_.exec("select pg_terminate_backend(" + std::to_string(connection.backend_pid()) + ")");
  for (int i = 0; i < 2; ++i) {
    try {
      connection.exec("select 1");
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.action(), Action::retry) << e.describe();
    }
  }
}

TEST_F(ConnectionTest, ExecUntilObeysDeadlineAndStop) {
  {
    SCOPED_TRACE("ExecUntilReturnsWhatEndsInTime");
    auto connection = open();
    EXPECT_EQ(connection.exec_until("select 1; select 42", Deadline::after(10s), {}).value(0, 0), "42");
    EXPECT_THROW(connection.exec_until("select 1/0", Deadline::never(), {}), Error);
    EXPECT_EQ(connection.exec("select 1").value(0, 0), "1");
  }
  {
    SCOPED_TRACE("ExecUntilObeysTheDeadline");
    auto connection = open();
    const auto begin = Clock::now();
    try {
      connection.exec_until("select pg_sleep(60)", Deadline::after(100ms), {});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::timed_out);
    }
    EXPECT_LT(Clock::now() - begin, 5s);
    EXPECT_TRUE(nothing_left("state = 'active'"));
    EXPECT_EQ(connection.exec("select 1").value(0, 0), "1") << "the connection stays usable";
  }
  {
    SCOPED_TRACE("ExecUntilObeysTheStop");
    auto connection = open();
    std::stop_source stop;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(100ms);
      stop.request_stop();
    });
    try {
      connection.exec_until("select pg_sleep(60)", Deadline::never(), stop.get_token());
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::failed);
      EXPECT_EQ(e.message(), "interrupted");
    }
    EXPECT_EQ(connection.exec("select 1").value(0, 0), "1");
  }
  {
    SCOPED_TRACE("ACancellerOutlivesItsConnection");
    Canceller canceller;
    canceller.cancel();
    {
      auto connection = open();
      canceller = connection.canceller();
    }
    canceller.cancel();
  }
}

// A client that just goes away would leave an active walsender until the blocking transaction ends.
TEST_F(ConnectionTest, ASlotThatWaitsForATransactionIsCancelledWithoutTrace) {
  server_.set("wal_level", "logical");
  server_.restart();
  auto blocker = server_.session();
  blocker.exec("begin; select txid_current()");
  auto connection = open(Session::replication);
  try {
    connection.exec_until("CREATE_REPLICATION_SLOT s LOGICAL pgoutput EXPORT_SNAPSHOT", Deadline::after(300ms), {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::timed_out) << e.describe();
  }
  EXPECT_EQ(server_.number("select count(*) from pg_replication_slots"), 0);
  EXPECT_TRUE(nothing_left("state = 'active'"));
  blocker.exec("commit");
  EXPECT_EQ(
      connection
          .exec_until("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT", Deadline::after(10s), {})
          .rows(),
      1);
}

TEST_F(ConnectionTest, ControlErrorsAreConverted) {
  auto connection = open_control(endpoint(server_.conninfo()), "x");
  const auto failure = [&](const std::string& sql) {
    try {
      control(Side::target, "doing it", [&] { pqxx::nontransaction(*connection).exec(sql); });
    } catch (const Error& e) {
      return e;
    }
    return Error(ErrorKind::failed, "no failure");
  };
  const auto missing = failure("select * from nowhere");
  EXPECT_EQ(missing.sqlstate(), "42P01");
  EXPECT_EQ(missing.side(), Side::target);
  EXPECT_EQ(missing.message(), "doing it: relation \"nowhere\" does not exist");
  EXPECT_EQ(failure("select 1/0").sqlstate(), "22012");
  EXPECT_EQ(failure("do $$ begin raise 'x' using errcode = '40001'; end $$").action(), Action::retry);
  EXPECT_EQ(failure("do $$ begin raise 'x' using errcode = '40P01'; end $$").sqlstate(), "40P01");
  EXPECT_EQ(failure("do $$ begin raise 'x' using errcode = '53300'; end $$").action(), Action::retry);
  EXPECT_EQ(failure("do $$ begin raise 'x' using errcode = '55006'; end $$").action(), Action::retry);
  EXPECT_EQ(failure("do $$ begin raise 'x' using errcode = '57014'; end $$").sqlstate(), "57014");
  // libpqxx 6 has classes that lose the code; each of these must come through.
  for (const std::string state :
       {"0A000", "22000", "22P02", "23502", "23503", "23505", "23514", "25006", "26000", "34000", "42501", "42601",
        "42703", "42883", "42P01", "42710", "53100", "53200", "55000", "57P03", "58P01", "P0001", "P0002", "XX001"}) {
    EXPECT_EQ(failure("do $$ begin raise 'x' using errcode = '" + state + "'; end $$").sqlstate(), state);
  }
  EXPECT_EQ(failure("selec").action(), Action::bug);
  EXPECT_EQ(control(Side::target, "x", [] { return 7; }), 7);
  EXPECT_THROW(control(Side::target, "x", [] { throw Error(ErrorKind::rejected, "ours"); }), Error);
  server_.exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgbaton/blue/x'");
  EXPECT_EQ(failure("select 1").action(), Action::retry);
  EXPECT_EQ(failure("select 1").action(), Action::retry) << "no silent reconnect";
}

}  // namespace
}  // namespace pgbaton::pg
