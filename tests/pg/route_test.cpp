// What stands between us and a server (S54): poolers, balancers, standbys. `check` says so, and a clone refuses before
// it makes anything.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/pair.hpp"
#include "support/proxy.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// pgbouncer in front of one server.
class Pgbouncer {
 public:
  Pgbouncer(const Cluster& server, const std::string& mode, const std::string& more = "")
      : directory_(make_run_directory("pgbouncer")), port_(free_port()) {
    std::ofstream(directory_ + "/users") << "\"postgres\" \"\"\n";
    std::ofstream(directory_ + "/ini") << "[databases]\n* = host=127.0.0.1 port=" << server.port()
                                       << "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port_
                                       << "\nunix_socket_dir =\nauth_type = trust\nauth_file = " << directory_
                                       << "/users\npool_mode = " << mode << "\nadmin_users = postgres\n"
                                       << more << '\n';
    ProcessOptions options{.arguments = {"/usr/sbin/pgbouncer", directory_ + "/ini"}, .as_postgres = true};
    options.stdout_file = options.stderr_file = directory_ + "/log";
    process_ = Process(options);
    for (int i = 0; i < 500 && PQping(conninfo().c_str()) == PQPING_NO_RESPONSE; ++i) {
      if (!process_.running()) throw std::runtime_error("pgbouncer did not start:\n" + read_file(directory_ + "/log"));
      std::this_thread::sleep_for(Milliseconds(10));
    }
  }
  std::string conninfo() const {
    return "host=127.0.0.1 port=" + std::to_string(port_) + " user=postgres dbname=postgres";
  }

 private:
  // A port that was free a moment ago.
  static int free_port() { return Proxy({1}).port(); }
  std::string directory_;
  int port_;
  Process process_;
};

std::vector<std::string> blockers(const ToolResult& check) {
  std::vector<std::string> ids;
  const auto document = nlohmann::json::parse(check.out, nullptr, false);
  if (!document.is_object()) return {"no JSON: " + check.out};
  for (const auto& finding : document.value("findings", nlohmann::json::array())) {
    if (finding.value("severity", "") == "blocker") ids.push_back(finding.value("id", ""));
  }
  return ids;
}

class RouteTest : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    source().exec("create table t (id int primary key); insert into t values (1)");
  }
  // check and clone both refuse with 3, and nothing is made on any side.
  void expect_refused(const std::string& from, const std::string& to, const std::string& id) {
    const auto check = Tool::run({"check", "--source", from, "--target", to, "--json"});
    EXPECT_EQ(check.code, 3) << check;
    EXPECT_THAT(blockers(check), Contains(id)) << check;
    const auto clone = Tool::run({"clone", "--source", from, "--target", to, "--until", "caught-up"});
    EXPECT_EQ(clone.code, 3) << clone;
    EXPECT_THAT(clone.err, HasSubstr("HINT")) << clone;
    expect_nothing_made();
  }
  void expect_nothing_made() {
    EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
    // Not its sessions: a pooler keeps them for a while.
    EXPECT_EQ(target().scalar("select to_regclass('t') is null and to_regnamespace('pgbaton') is null"), "t");
  }
};

// As installed, pgbouncer refuses our start-up options; many a site tells it to swallow them.
constexpr const char* kSwallow = "ignore_startup_parameters = extra_float_digits,options";

TEST_F(RouteTest, S54_TransactionPoolerOfTheSource) {
  const Pgbouncer pooler(source(), "transaction");
  expect_refused(pooler.conninfo(), target().conninfo(), "source.pooler");
}

TEST_F(RouteTest, S54_TransactionPoolerThatSwallowsOptions) {
  const Pgbouncer before_source(source(), "transaction", kSwallow), before_target(target(), "transaction", kSwallow);
  expect_refused(before_source.conninfo(), target().conninfo(), "source.pooler");
  expect_refused(source().conninfo(), before_target.conninfo(), "target.pooler");
}

TEST_F(RouteTest, S54_TransactionPoolerOfTheTarget) {
  const Pgbouncer pooler(target(), "transaction");
  expect_refused(source().conninfo(), pooler.conninfo(), "target.pooler");
}

TEST_F(RouteTest, S54_SessionPoolerSwallowsOurSettings) {
  const Pgbouncer before_source(source(), "session", kSwallow), before_target(target(), "session", kSwallow);
  expect_refused(before_source.conninfo(), target().conninfo(), "source.pooler");
  expect_refused(before_source.conninfo(), target().conninfo(), "source.replication_connection");
  expect_refused(source().conninfo(), before_target.conninfo(), "target.pooler");
}

TEST_F(RouteTest, S54_ConnectionsLandOnDifferentInstances) {
  const Cluster other;
  const Proxy before_target({target().port(), other.port()}), before_source({source().port(), other.port()});
  expect_refused(source().conninfo(), before_target.conninfo(), "target.instances");
  expect_refused(before_source.conninfo(), target().conninfo(), "source.instances");
  EXPECT_THAT(leftovers(other.conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(other.conninfo()), IsEmpty());
}

// A plain relay to one server is no obstacle.
TEST_F(RouteTest, S54_RelayToOneInstanceIsFine) {
  const Proxy before_source({source().port()}), before_target({target().port()});
  const auto check = Tool::run({"check", "--source", before_source.conninfo(), "--target", before_target.conninfo()});
  EXPECT_EQ(check.code, 0) << check;
  const auto clone = Tool::run(
      {"clone", "--source", before_source.conninfo(), "--target", before_target.conninfo(), "--until", "caught-up"});
  EXPECT_EQ(clone.code, 0) << clone;
  expect_equal();
}

// A restart, or a network that breaks, in the middle of the questions is neither a balancer nor a pooler.
TEST_F(RouteTest, LostConnectionsAreNoOtherServer) {
  Proxy road({source().port()});
  std::jthread cutter([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      std::this_thread::sleep_for(Milliseconds(5 + i % 60));
      road.cut();
    }
  });
  for (int i = 0; i < 25; ++i) {
    const auto check = Tool::run({"check", "--source", road.conninfo(), "--target", target().conninfo(), "--json"});
    const auto ids = blockers(check);
    for (const auto* id : {"source.instances", "source.pooler"}) EXPECT_EQ(std::ranges::count(ids, id), 0) << check;
  }
}

class StandbyTest : public RouteTest {
 protected:
  // A copy of the primary that follows it.
  std::unique_ptr<Cluster> make_standby(Cluster& primary) {
    auto standby = std::make_unique<Cluster>(ClusterOptions{.start = false});
    remove_tree(standby->data_directory());
    run_checked({.arguments = {Cluster::bin_directory(15) + "/pg_basebackup", "-d", primary.conninfo(), "-D",
                               standby->data_directory(), "-R", "-c", "fast"},
                 .as_postgres = true});
    standby->set("port", std::to_string(standby->port()));
    standby->set("unix_socket_directories", standby->directory());
    standby->start();
    return standby;
  }
};

TEST_F(StandbyTest, S54_StandbyBehindEitherString) {
  const auto of_source = make_standby(source()), of_target = make_standby(target());
  expect_refused(of_source->conninfo(), target().conninfo(), "source.in_recovery");
  expect_refused(source().conninfo(), of_target->conninfo(), "target.in_recovery");
}

// Standby and primary share system identifier, data and timeline; only the instance differs.
TEST_F(StandbyTest, S54_ReaderEndpointAlternatesBetweenPrimaryAndStandby) {
  const auto of_source = make_standby(source()), of_target = make_standby(target());
  const Proxy reader({source().port(), of_source->port()}), balanced({target().port(), of_target->port()});
  expect_refused(reader.conninfo(), target().conninfo(), "source.instances");
  expect_refused(source().conninfo(), balanced.conninfo(), "target.instances");
}

}  // namespace
}  // namespace pgbaton::testing
