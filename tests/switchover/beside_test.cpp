// Commands that are at work while the application changes sides: none of them may go on behind it.
#include <signal.h>

#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class BesideSwitchover : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table account (id bigint primary key, n int not null); create table large (id int primary key, v int);"
        "insert into large select i, 0 from generate_series(1, 500) i");
    create_marker();
    clone_until_caught_up();
  }
};

// A table that leaves the stream between preflight and flip would stay behind; a resync that leaves it until later
// would put the closed side's rows over those of the application.
TEST_F(BesideSwitchover, AResyncTakesNoTableAcross) {
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  auto resync = start("resync", {"large"}, {{"PGBATON_FAILPOINTS", "resync_chosen=freeze,resync_detached=freeze"}});
  ASSERT_TRUE(is_frozen(resync)) << resync.err();
  auto switchover = start("switchover", {}, {{"PGBATON_FAILPOINTS", "switchover_prepare=freeze"}});
  ASSERT_TRUE(is_frozen(switchover)) << switchover.err();
  const auto second = run("resync", {"account"});
  EXPECT_EQ(second.code, 7) << second;
  EXPECT_THAT(second.err, HasSubstr("a switchover of replica default is running"));
  resync.kill(SIGCONT);
  ASSERT_TRUE(target().wait_until("select count(*) from pgbaton.table_state where detached", "1"));
  switchover.kill(SIGCONT);
  const auto given_up = switchover.wait(Milliseconds(60'000));
  EXPECT_EQ(given_up.code, 3) << given_up;
  EXPECT_THAT(given_up.err, HasSubstr("a table has left the stream meanwhile"));
  EXPECT_THAT(given_up.err, HasSubstr("table public.large"));
  expect_only(source(), target(), "a table had left the stream");
  ASSERT_TRUE(is_frozen(resync));
  resync.kill(SIGCONT);
  const auto resynced = resync.wait(Milliseconds(60'000));
  EXPECT_EQ(resynced.code, 0) << resynced;

  auto late = start("resync", {"large"}, {{"PGBATON_FAILPOINTS", "resync_chosen=freeze"}});
  ASSERT_TRUE(is_frozen(late)) << late.err();
  source().exec("update large set v = 1");
  const auto done = run("switchover", {}, {}, Milliseconds(120'000));
  ASSERT_EQ(done.code, 0) << done;
  target().exec("update large set v = 2 where id <= 100");
  late.kill(SIGCONT);
  const auto refused = late.wait(Milliseconds(60'000));
  EXPECT_EQ(refused.code, 7) << refused;
  EXPECT_THAT(refused.err, HasSubstr("replica default has ended or changed sides meanwhile"));
  EXPECT_EQ(target().scalar("select sum(v) from large"), "600");
  expect_only(target(), source(), "a resync that came too late");
  stop_follower(follower);
}

// One that a service manager starts anew at that moment is not told to end the switchover by hand.
TEST_F(BesideSwitchover, AFollowerThatBeginsMeanwhileWaits) {
  auto switchover = start("switchover", {}, {{"PGBATON_FAILPOINTS", "switchover_flipped=freeze"}});
  ASSERT_TRUE(is_frozen(switchover)) << switchover.err();
  auto follower = start("follow");
  ASSERT_TRUE(follower.wait_for_stderr("a switchover is at work: waiting for its end"));
  switchover.kill(SIGCONT);
  const auto done = switchover.wait(Milliseconds(60'000));
  EXPECT_EQ(done.code, 0) << done;
  ASSERT_TRUE(follower.wait_for_stderr("streaming from slot \"pgbaton__back\""));
  target().exec("insert into account values (7, 7)");
  EXPECT_TRUE(source().wait_until("select count(*) from account", "1"));
  stop_follower(follower);
}

}  // namespace
}  // namespace pgbaton::testing
