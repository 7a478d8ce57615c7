// The way back: what is written on the target streams to the former source, and a rollback loses nothing.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

class WayBack : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    // A trigger that would count twice what it counts, were it to fire when changes are applied.
    source().exec(
        "create table account (id bigint primary key, n int not null);"
        "create table counted (n bigint); insert into counted values (0); alter table counted replica identity full;"
        "create function count_it() returns trigger language plpgsql as "
        "$$begin update public.counted set n = n + 1; return null; end$$;"
        "create table item (id bigint generated always as identity primary key, account bigint references account, "
        "note text, price numeric, doubled numeric generated always as (price * 2) stored);"
        "create trigger count_it after insert on item for each row execute function count_it();"
        "create table part (id int, k int, primary key (id, k)) partition by list (k);"
        "create table part_1 partition of part for values in (1); create table part_2 partition of part default;"
        "insert into account select i, 0 from generate_series(-1500, -1001) i;"
        "insert into part select i, i % 3 from generate_series(1, 60) i;"
        "insert into item (account, note, price) select -1000 - i, repeat(md5(i::text), 200), i from "
        "generate_series(1, 50) "
        "i");
    clone_until_caught_up();
    directory_ = make_run_directory("way_back");
  }
  std::string config(const std::string& settings = "") {
    std::ofstream(directory_ + "/config.yaml") << "switchover:\n  gap: 1000\n  transaction-wait: 1s\n" << settings;
    return directory_ + "/config.yaml";
  }
  ToolResult switch_over(const Arguments& more = {}, const Environment& environment = {}) {
    Arguments all{"--config", config()};
    all.insert(all.end(), more.begin(), more.end());
    return run("switchover", all, environment, Milliseconds(120'000));
  }
  // What an application does besides.
  static void work_on(Cluster& server) {
    server.exec(
        "insert into item (account, note, price) select -1000 - i, repeat('x', 5000), i from generate_series(1, 20) i;"
        "update item set price = price + 1 where id % 3 = 0; update part set k = 3 - k where id % 5 = 0 and k > 0;"
        "delete from item where id % 11 = 0; update account set n = n + 1 where id between -1200 and -1001");
  }
  static std::string slots(Cluster& server) {
    return server.scalar(
        "select coalesce(string_agg(slot_name, ' ' order by slot_name), '') from pg_replication_slots");
  }
  // One phase: clients that know both servers, before and behind the change of sides; then both hold the same.
  void change_sides(const Arguments& more, Cluster& now, Cluster& former) {
    const auto file = directory_ + "/acknowledged" + std::to_string(++phase_);
    Clients clients({former.conninfo(), now.conninfo()}, 2, 100, file, phase_ * 1'000'000LL);
    ASSERT_TRUE(clients.wait_acknowledged(40));
    work_on(former);
    const auto result = switch_over(more);
    ASSERT_EQ(result.code, 0) << result;
    ASSERT_TRUE(clients.wait_acknowledged(40)) << result;
    work_on(now);
    clients.stop();
    std::cout << "longest pause seen by a client " << clients.longest_pause().count() << " ms\n";
    EXPECT_EQ(Clients::lost(file, now), "");
    EXPECT_FALSE(takes_writes(former));
    // Only ever one way.
    EXPECT_EQ(slots(former), "");
    ASSERT_TRUE(wait_for("caught-up"));
    EXPECT_EQ(Clients::lost(file, former), "");
    expect_equal();
  }
  std::string directory_;
  int phase_ = 0;
};

TEST_F(WayBack, S51_ForthAndBackAndForthWithAFollowerThatTurnsByItself) {
  auto follower = start("follow");
  change_sides({}, target(), source());
  EXPECT_EQ(status_field("direction"), "reverse");
  EXPECT_EQ(slots(target()), "pgbaton__back");
  EXPECT_EQ(run("verify").code, 0);
  const auto again = switch_over();
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("already switched over"));
  const auto clone = run("clone", {"--restart"});
  EXPECT_EQ(clone.code, 2) << clone;
  change_sides({"--rollback"}, source(), target());
  EXPECT_EQ(status_field("direction"), "forward");
  EXPECT_EQ(slots(source()), "pgbaton");
  EXPECT_THAT(switch_over({"--rollback"}).out, HasSubstr("the application works on the source"));
  change_sides({}, target(), source());
  EXPECT_TRUE(follower.running());
  stop_follower(follower);
  const auto drop = run("drop");
  EXPECT_EQ(drop.code, 0) << drop;
  for (auto* server : {&source(), &target()}) {
    EXPECT_EQ(slots(*server), "");
    EXPECT_EQ(server->number("select (select count(*) from pg_publication) + (select count(*) from pg_namespace where "
                             "nspname = 'pgbaton')"),
              0);
  }
  EXPECT_TRUE(takes_writes(target()));
  EXPECT_FALSE(takes_writes(source())) << "it is old from now on";
}

}  // namespace
}  // namespace pgbaton::testing
