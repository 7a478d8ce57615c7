// TLS against an authority of our own, SCRAM with channel binding and a client's certificate, on both sides, in every
// connection: also those of the replication protocol and of pg_dump. And a password that would go without TLS.

#include <array>
#include <fstream>
#include <memory>
#include <sstream>

#include "support/address.hpp"
#include "support/certificates.hpp"
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kSecret = "T0p-s3cret-w0rd";

class TlsTest : public PairTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"log_connections", "on"}}}; }
  ClusterOptions target_options() const override { return source_options(); }

  void SetUp() override {
    PairTest::SetUp();
    for (auto* server : {&source(), &target()}) {
      // The tests' own session stays as it is; the tool's role has one way in.
      authority_.equip(*server,
                       "hostssl all carrier 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n"
                       "hostssl all bearer 127.0.0.1/32 scram-sha-256\n"
                       "host all carrier,bearer all reject\n");
      server->restart();
      server->exec(std::string("create role carrier login superuser password '") + kSecret +
                   "'; create role bearer login superuser password '" + kSecret + "'");
    }
    source().exec(
        "create table t (id int primary key, v text); insert into t select i, 'a' from generate_series(1, 500) i");
  }

  std::string conninfo(const Cluster& server, const std::string& more) const {
    return "host=localhost hostaddr=127.0.0.1 dbname=postgres port=" + std::to_string(server.port()) + " " + more;
  }
  std::string secure(const Cluster& server) const {
    return conninfo(server,
                    "user=carrier sslmode=verify-full channel_binding=require sslrootcert=" + authority_.certificate() +
                        " sslcert=" + client_.certificate + " sslkey=" + client_.key + " password=" + kSecret);
  }
  Arguments with(const std::string& command, const Arguments& more = {}) const {
    Arguments all{command, "--source", secure(*source_), "--target", secure(*target_)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The roles of connections that the tool made; all of them with TLS, or it is a failure.
  static std::string roles_seen(const Cluster& server) {
    std::istringstream log(server.log());
    std::string roles;
    for (std::string line; std::getline(log, line);) {
      const auto name = line.find("application_name=pgbaton/");
      if (name == std::string::npos || line.find("connection authorized") == std::string::npos) continue;
      EXPECT_THAT(line, AllOf(HasSubstr("user=carrier"), HasSubstr("SSL enabled (protocol=")));
      roles += (line.find("replication connection") != std::string::npos ? "replication:" : "") +
               line.substr(name, line.find(' ', name) - name) + "\n";
    }
    return roles;
  }

  const Authority authority_{"pgbaton tests"}, stranger_{"somebody else"};
  const Authority::Signed client_ = authority_.sign("carrier");
};

TEST_F(TlsTest, EveryConnectionIsVerifiedAndBound) {
  const auto cloned = Tool::run(with("clone"), Milliseconds(90'000));
  ASSERT_EQ(cloned.code, 0) << cloned;
  Tool follower(with("follow"));
  source().exec("update t set v = 'b' where id <= 100; delete from t where id > 450");
  EXPECT_EQ(Tool::run(with("wait", {"--for", "ready", "--timeout", "60s"})).code, 0);
  const auto verified = Tool::run(with("verify"));
  EXPECT_EQ(verified.code, 0) << verified;
  follower.kill(SIGTERM);
  EXPECT_EQ(follower.wait().code, 0);
  const auto finished = Tool::run(with("finish"));
  EXPECT_EQ(finished.code, 0) << finished;
  expect_equal();
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());

  const auto on_source = roles_seen(source());
  for (const auto* role : {"/route", "/clone", "/holder", "/pg_dump", "/copy-0", "/verify", "replication:"})
    EXPECT_THAT(on_source, HasSubstr(role));
  EXPECT_THAT(roles_seen(target()), AllOf(HasSubstr("/lease"), HasSubstr("/copy-0"), HasSubstr("/apply")));
}

TEST_F(TlsTest, WhatCannotBeTrustedIsRefusedOnceAndForAll) {
  struct Wrong {
    std::string conninfo, says;
  };
  const std::string password = std::string(" password=") + kSecret;
  const auto verify = " sslmode=verify-full sslrootcert=" + authority_.certificate();
  const std::vector<Wrong> all{
      {conninfo(source(), "user=bearer sslmode=verify-full sslrootcert=" + stranger_.certificate() + password),
       "certificate verify failed"},
      {"host=elsewhere.example hostaddr=127.0.0.1 dbname=postgres user=bearer port=" + std::to_string(source().port()) +
           verify + password,
       "does not match host name"},
      {conninfo(source(), "user=carrier" + verify + password), "certificate"},
      {conninfo(source(), "user=bearer sslmode=disable" + password), "rejects connection"},
  };
  for (const auto& wrong : all) {
    SCOPED_TRACE(wrong.says);
    const auto result =
        Tool::run({"clone", "--source", wrong.conninfo, "--target", target().conninfo()}, Milliseconds(60'000));
    EXPECT_EQ(result.code, 1) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr(wrong.says), HasSubstr("HINT: "), Not(HasSubstr(kSecret)))) << result;
    EXPECT_LT(result.elapsed.count(), 30'000) << "not tried again";
  }
}

TEST_F(TlsTest, APasswordGoesToAnotherHostWithTlsOnly) {
  const auto elsewhere = [&](const std::string& more) {
    return "host=198.51.100.1 connect_timeout=2 user=u dbname=d " + more;
  };
  const auto password = std::string("password=") + kSecret;
  const auto run_check = [&](const std::string& conninfo, const Arguments& more) {
    Arguments all{"check", "--source", conninfo};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all, Milliseconds(60'000));
  };
  const auto refused = run_check(elsewhere(password + " sslmode=disable"), {});
  EXPECT_EQ(refused.code, 2) << refused;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("198.51.100.1"), HasSubstr("allow_plain_password: [198.51.100.1]"),
                                 Not(HasSubstr(kSecret))));
  EXPECT_EQ(
      Tool::run({"check", "--source", elsewhere("sslmode=disable")}, Milliseconds(60'000), {{"PGPASSWORD", kSecret}})
          .code,
      2);
  // By name, in the file: then it is tried, and nobody is there.
  const auto file = source().directory() + "/allow.yaml";
  std::ofstream(file) << "allow_plain_password: [198.51.100.1]\n";
  EXPECT_EQ(run_check(elsewhere(password + " sslmode=disable"), {"--config", file}).code, 1);

  // A server without TLS at an address of this machine that is not the loopback: libpq's own default would give it the
  // password in the clear.
  const auto address = own_address();
  if (address.empty()) return;
  Cluster plain({.settings = {{"listen_addresses", "*"}}});
  std::ofstream(plain.data_directory() + "/pg_hba.conf", std::ios::app) << "host all all all password\n";
  plain.reload();
  plain.exec(std::string("create role u login superuser password '") + kSecret + "'");
  const auto there =
      "host=" + address + " port=" + std::to_string(plain.port()) + " user=u dbname=postgres " + password;
  ASSERT_TRUE(plain.wait_until("select count(*) > 0 from pg_hba_file_rules where auth_method = 'password'", "t"));
  const auto unasked = run_check(there, {});
  EXPECT_EQ(unasked.code, 1) << unasked;
  EXPECT_THAT(unasked.err, AllOf(HasSubstr("SSL"), HasSubstr("allow_plain_password"), Not(HasSubstr(kSecret))));
  std::ofstream(file) << "allow_plain_password: [198.51.100.7, \"" << address << "\"]\n";
  const auto allowed = run_check(there, {"--config", file});
  EXPECT_EQ(allowed.code, 0) << allowed;
}

}  // namespace
}  // namespace pgbaton::testing
