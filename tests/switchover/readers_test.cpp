// Readers first: --mode read-only, the same step in an ordinary run, and the ways back.
#include <signal.h>

#include "switchover/bouncer.hpp"
#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class ReadersTest : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    source().exec("create table account (id bigint primary key, n int not null)");
    create_marker();
    clone_until_caught_up();
    directory_ = make_run_directory("readers");
    pooler_.emplace(source(), target());
  }
  ToolResult switch_over(const Arguments& more, const std::string& settings = "", const Environment& environment = {}) {
    std::ofstream(directory_ + "/config.yaml")
        << "switchover:\n  gap: 1000\n  pgbouncer-readers: " << pooler_->conninfo("pgbouncer")
        << "\n  pgbouncer-readers-conffile: " << pooler_->after()
        << "\n  pgbouncer-readers-conffile-back: " << pooler_->before() << "\n"
        << "  hooks:\n    given-up: 'echo $PGBATON_STEP >> " << directory_ << "/given-up'\n"
        << (settings.empty() ? "  hook-readers: 'echo $PGBATON_STEP $PGBATON_READERS >> " + directory_ + "/hook'\n"
                             : settings);
    Arguments all{"--config", directory_ + "/config.yaml"};
    all.insert(all.end(), more.begin(), more.end());
    return run("switchover", all, environment, Milliseconds(120'000));
  }
  // Where a reader who connects now is sent; RELOAD takes a moment.
  bool readers_are_at(Cluster& server) {
    const auto deadline = std::chrono::steady_clock::now() + Milliseconds(10'000);
    while (std::chrono::steady_clock::now() < deadline) {
      try {
        Session reader(pooler_->conninfo());
        if (reader.scalar("select inet_server_port()::text") == std::to_string(server.port())) return true;
      } catch (const std::exception&) {  // the former server's connection is being closed
      }
      std::this_thread::sleep_for(Milliseconds(50));
    }
    return false;
  }
  std::string last_hook() {
    std::ifstream in(directory_ + "/hook");
    std::string last;
    for (std::string line; std::getline(in, line);) last = line;
    return last;
  }
  std::string directory_;
  std::optional<Bouncer> pooler_;
};

TEST_F(ReadersTest, GoFirstComeBackAndGoWithTheWriters) {
  EXPECT_EQ(run("switchover", {"--mode", "read-only"}).code, 2) << "nothing is set";
  const auto alone = switch_over({"--mode", "read-only"});
  EXPECT_EQ(alone.code, 3) << alone;
  EXPECT_THAT(alone.err, HasSubstr("nobody streams"));
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives());
  EXPECT_EQ(switch_over({"--mode", "read-only", "--dry-run"}).code, 0);
  EXPECT_TRUE(readers_are_at(source()));
  for (const auto* once : {"first", "again"}) {
    const auto sent = switch_over({"--mode", "read-only"});
    ASSERT_EQ(sent.code, 0) << once << sent;
    EXPECT_THAT(sent.out, HasSubstr("of WAL behind (max-lag 16 MB); writers stay"));
    EXPECT_THAT(sent.out, HasSubstr("readers on the target"));
    EXPECT_TRUE(readers_are_at(target()));
    EXPECT_EQ(last_hook(), "readers target");
    EXPECT_TRUE(takes_writes(source()));
    EXPECT_FALSE(takes_writes(target()));
    EXPECT_TRUE(marker_arrives()) << "the stream goes on";
  }
  EXPECT_THAT(run("status").out, HasSubstr("CLOSED      the target takes no writes but pgbaton's: readers of the "
                                           "application were sent there; `pgbaton switchover --undo` sends them back"));
  EXPECT_EQ(status_field("readers_on_target"), "true");
  EXPECT_THAT(status_field("fences"), HasSubstr("\"standing\":\"readers sent\""));
  const auto undone = switch_over({"--undo"});
  EXPECT_EQ(undone.code, 0) << undone;
  EXPECT_THAT(undone.out, HasSubstr("the readers were sent back to the source"));
  EXPECT_TRUE(readers_are_at(source()));
  EXPECT_EQ(last_hook(), "undo source");
  EXPECT_EQ(status_field("readers_on_target"), "false");
  // Killed when they were sent, they are not forgotten there.
  EXPECT_EQ(switch_over({"--mode", "read-only"}, "", {{"PGBATON_FAILPOINTS", "switchover_readers=kill"}}).code,
            128 + SIGKILL);
  EXPECT_TRUE(readers_are_at(target()));
  EXPECT_TRUE(takes_writes(source()));
  stop_follower(follower);
  const auto emptied = run("clone", {"--restart"});
  EXPECT_EQ(emptied.code, 2) << emptied;
  EXPECT_THAT(emptied.err, HasSubstr("`pgbaton switchover --undo` sends them back"));
  follower = start("follow");
  const auto sent_back = switch_over({"--undo"});
  EXPECT_EQ(sent_back.code, 0) << sent_back;
  EXPECT_TRUE(readers_are_at(source()));
  // What fails sends them back: the command for them, and a step of the writers' after it.
  const auto failed = switch_over({"--mode", "read-only"}, "  hook-readers: test $PGBATON_READERS = source\n");
  EXPECT_EQ(failed.code, 1) << failed;
  EXPECT_THAT(failed.err, HasSubstr("ERROR: step readers: hook-readers ended with 1"));
  EXPECT_TRUE(readers_are_at(source()));
  const auto stopped = switch_over({}, "", {{"PGBATON_FAILPOINTS", "switchover_barrier=stop"}});
  EXPECT_EQ(stopped.code, 1) << stopped;
  EXPECT_TRUE(takes_writes(source()));
  EXPECT_TRUE(readers_are_at(source()));
  EXPECT_EQ(last_hook(), "barrier source");
  EXPECT_EQ(read_file(directory_ + "/given-up"), "undo\nundo\nbarrier\n");
  EXPECT_EQ(switch_over({}, "", {{"PGBATON_FAILPOINTS", "switchover_readers=kill"}}).code, 128 + SIGKILL);
  expect_only(source(), target(), "killed before the fence");
  const auto undone_again = switch_over({"--undo"});
  EXPECT_EQ(undone_again.code, 0) << undone_again;
  EXPECT_TRUE(readers_are_at(source()));
  // Not while the target is behind.
  ASSERT_TRUE(marker_arrives()) << "the follower goes on";
  follower.kill(SIGSTOP);
  source().exec("insert into account select i, 0 from generate_series(1000000, 1050000) i");
  const auto behind = switch_over({"--mode", "read-only"}, "  max-lag: 100kB\n  hook-readers: 'true'\n");
  follower.kill(SIGCONT);
  EXPECT_EQ(behind.code, 3) << behind;
  EXPECT_THAT(behind.err, HasSubstr("more than max-lag (100 kB)"));
  EXPECT_TRUE(readers_are_at(source()));
  // With the writers, and back in two steps.
  ASSERT_TRUE(wait_for("caught-up"));
  const auto unended = switch_over({}, "  hook-readers: 'true'\n  hook-after: exit 1\n");
  EXPECT_EQ(unended.code, 1) << unended;
  EXPECT_THAT(unended.out, HasSubstr("failed at step clean-up; the target is open and the application works there"));
  const auto done = switch_over({}, "  hook-readers: 'true'\n  hook-after: echo after >> " + directory_ + "/after\n");
  ASSERT_EQ(done.code, 0) << done;
  EXPECT_EQ(read_file(directory_ + "/after"), "after\n");
  EXPECT_TRUE(readers_are_at(target()));
  expect_only(target(), source(), "forward");
  ASSERT_TRUE(wait_for("caught-up"));
  const auto back = switch_over({"--rollback", "--mode", "read-only"});
  ASSERT_EQ(back.code, 0) << back;
  EXPECT_THAT(back.out, HasSubstr("readers on the source"));
  EXPECT_TRUE(readers_are_at(source()));
  expect_only(target(), source(), "only the readers");
  const auto there = switch_over({"--undo"});
  EXPECT_EQ(there.code, 0) << there;
  EXPECT_THAT(there.out, HasSubstr("the readers were sent back to the target"));
  EXPECT_TRUE(readers_are_at(target()));
  EXPECT_EQ(last_hook(), "undo target");
  ASSERT_TRUE(wait_for("caught-up"));
  EXPECT_EQ(switch_over({"--rollback"}, "", {{"PGBATON_FAILPOINTS", "switchover_readers=kill"}}).code, 128 + SIGKILL);
  EXPECT_TRUE(readers_are_at(source()));
  // A command that fails is told, and run again; nothing of it opens the other side.
  const auto stuck = switch_over({"--undo"}, "  hook-readers: exit 1\n");
  EXPECT_EQ(stuck.code, 1) << stuck;
  EXPECT_THAT(stuck.err, HasSubstr("the readers were not sent back: hook-readers ended with 1"));
  EXPECT_THAT(run("status").out, HasSubstr("READERS     of the application were sent to the target of the stream"));
  EXPECT_EQ(switch_over({"--undo"}).code, 0);
  EXPECT_TRUE(readers_are_at(target()));
  expect_only(target(), source(), "undone on its way back");
  ASSERT_EQ(switch_over({"--rollback"}).code, 0);
  EXPECT_TRUE(readers_are_at(source()));
  expect_only(source(), target(), "back");
  stop_follower(follower);
}

}  // namespace
}  // namespace pgbaton::testing
