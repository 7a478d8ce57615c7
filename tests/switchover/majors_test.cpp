// S50 from one major to another, through PgBouncer and without, with one writer in a transaction of half a minute.
#include <nlohmann/json.hpp>

#include "switchover/bouncer.hpp"
#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Majors {
  int source, target;
  bool bouncer;
};

class SwitchoverMajors : public PairTest, public ::testing::WithParamInterface<Majors> {
 protected:
  ClusterOptions source_options() const override {
    return {.major = GetParam().source, .settings = {{"wal_level", "logical"}}};
  }
  ClusterOptions target_options() const override { return {.major = GetParam().target}; }
};

TEST_P(SwitchoverMajors, S50_NothingAcknowledgedIsLost) {
  source().exec(
      "create table account (id bigint primary key, n int not null);"
      "create table p (id int, k int, primary key (id, k)) partition by range (k);"
      "create table p_1 partition of p for values from (0) to (10); create table p_2 partition of p default;"
      "insert into p select i, i from generate_series(1, 20) i");
  // By hand: PGBATON_SWITCHOVER_MB=1000 for the pause with so much data.
  if (const char* megabytes = std::getenv("PGBATON_SWITCHOVER_MB"))
    source().exec(
        "create table filler (id bigint primary key, pad text); insert into filler select i, repeat(md5(i::text), 30) "
        "from generate_series(1, 1000 * " +
        std::string(megabytes) + ") i");
  clone_until_caught_up();
  std::optional<Bouncer> bouncer;
  const auto directory = make_run_directory("majors");
  const auto config = directory + "/config.yaml", file = directory + "/acknowledged";
  std::ofstream text(config);
  text << "switchover:\n  transaction-wait: " << (GetParam().bouncer ? "2s" : "1s")
       << "\n  hook-flip: 'echo $PGBATON_STEP $PGBATON_WRITABLE > " << directory << "/hook'\n";
  std::vector<std::string> servers{source().conninfo(), target().conninfo()};
  if (GetParam().bouncer) {
    bouncer.emplace(source(), target());
    servers = {bouncer->conninfo()};
    text << "  pgbouncer: " << bouncer->conninfo("pgbouncer") << "\n  pgbouncer-conffile: " << bouncer->after()
         << "\n  pgbouncer-pause: app\n";
  }
  text.close();
  auto follower = GetParam().bouncer ? start("clone", {"--follow"}) : start("follow");
  Clients clients(servers, 2, 200, file);
  ASSERT_TRUE(clients.wait_acknowledged(100));
  auto slow = source().session();
  slow.exec("begin; insert into account values (-7, 0)");
  const auto result = run("switchover", {"--config", config});
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_ANY_THROW(slow.exec("commit"));
  ASSERT_TRUE(clients.wait_acknowledged(100));
  clients.stop();
  std::cout << result.out << "longest pause seen by a client: " << clients.longest_pause().count() << " ms\n";
  EXPECT_EQ(Clients::lost(file, target()), "");
  EXPECT_TRUE(takes_writes(target()));
  EXPECT_FALSE(takes_writes(source()));
  EXPECT_THAT(read_file(directory + "/hook"), HasSubstr("send target"));
  if (GetParam().bouncer) {
    EXPECT_THAT(clients.refusals(), IsEmpty()) << "held back, not refused";
    EXPECT_LT(clients.longest_pause(), Milliseconds(2'000)) << "nobody is held back while the slow one is waited for";
  }
  EXPECT_EQ(target().number("select count(*) from p"), 20);
  // The follower has turned round: what is written on the newer one comes to the older one.
  target().exec("insert into p values (21, 1); update p set k = 30 - k where id < 10; delete from p where id = 15");
  ASSERT_TRUE(wait_for("caught-up"));
  expect_equal();
  EXPECT_EQ(Clients::lost(file, source()), "");
  stop_follower(follower);
}

INSTANTIATE_TEST_SUITE_P(upgrade, SwitchoverMajors, ::testing::Values(Majors{12, 17, false}, Majors{15, 17, true}),
                         [](const auto& given) {
                           return std::to_string(given.param.source) + "to" + std::to_string(given.param.target) +
                                  (given.param.bouncer ? "ThroughPgBouncer" : "");
                         });

}  // namespace
}  // namespace pgbaton::testing
