// The target is full, locked, out of connections, read-only by default, vacuumed all the time, or fails over: the tool
// goes on by itself, or ends and says what to do.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "support/pair.hpp"
#include "support/small_disk.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TargetTroubleTest : public PairTest {
 protected:
  ClusterOptions target_options() const override {
    return {.settings = {{"max_connections", "25"},
                         {"autovacuum_naptime", "1s"},
                         {"autovacuum_vacuum_threshold", "1"},
                         {"autovacuum_vacuum_scale_factor", "0"},
                         {"autovacuum_vacuum_cost_delay", "0"}}};
  }
  void create_tables() {
    source().exec(
        "create table a (id int primary key, n int); insert into a select i, 0 from generate_series(1, 200) i; "
        "create table b (id int primary key, n int); insert into b select i, 0 from generate_series(1, 200) i");
    create_marker();
  }
  // Another session takes locks against the order in which the batch takes its own; which that is, is seen.
  bool bring_about_deadlock() {
    auto other = target().session();
    other.exec("set default_transaction_read_only = off; set statement_timeout = 0; set deadlock_timeout = '60s'");
    const auto locks = [&](const char* table, const char* granted) {
      return "select count(*) > 0 from pg_locks l join pg_stat_activity s using (pid) where s.application_name like "
             "'pgbaton/%/apply' and l.relation = '" +
             std::string(table) + "'::regclass and l.granted = " + granted;
    };
    for (int round = 0; round < 20; ++round) {
      const char* first = round % 2 == 0 ? "a" : "b";
      const char* second = round % 2 == 0 ? "b" : "a";
      other.exec("begin; lock table " + std::string(first) + " in exclusive mode");
      const bool waits = target().wait_until(locks(first, "false"), "t");
      if (waits && target().scalar(locks(second, "true")) == "t") {
        other.exec("lock table " + std::string(second) + " in exclusive mode; commit");  // the batch gives way
        return true;
      }
      other.exec("commit");
    }
    return false;
  }
};

TEST_F(TargetTroubleTest, LocksDeadlocksDefaultsAndConnections) {
  // A replica is often made read-only for its applications, and a role's time-outs are meant for them, too.
  target().exec(
      "alter database postgres set default_transaction_read_only = on; alter role postgres set statement_timeout = "
      "'300ms'");
  create_tables();
  clone_until_caught_up();
  Load load(source().conninfo(), 2, [](Load::Turn& turn) {
    turn.session.exec(
        "begin; update a set n = n + 1 where id = 1 + (random() * 199)::int; update b set n = n + 1 where id = "
        "1 + (random() * 199)::int; commit");
    if (turn.round % 50 == 0)
      turn.session.exec("begin; truncate b; insert into b select i, 0 from generate_series(1, 200) i; commit");
    std::this_thread::sleep_for(Milliseconds(5));
  });
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives()) << follower.err();

  EXPECT_TRUE(bring_about_deadlock()) << follower.err();
  EXPECT_TRUE(marker_arrives(Milliseconds(60'000))) << follower.err();
  EXPECT_THAT(follower.err(), HasSubstr("deadlock detected"));

  // No connection is left for a stream that has lost its own.
  std::vector<Session> crowd;
  target().exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'pgbaton/%'");
  try {
    while (crowd.size() < 30) crowd.emplace_back(target().conninfo());
  } catch (const SqlError&) {  // full
  }
  EXPECT_TRUE(follower.wait_for_stderr("too many clients|remaining connection slots")) << follower.err();
  crowd.clear();
  EXPECT_TRUE(marker_arrives(Milliseconds(60'000))) << follower.err();
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  EXPECT_TRUE(marker_arrives());
  stop_follower(follower);
  expect_equal_after_drain();
}

TEST_F(TargetTroubleTest, DiskIsFullWhileCopyingAndWhileStreaming) {
  SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << "this test mounts a tmpfs, as root or by sudo";
  target().exec("create tablespace small location '" + disk.make_space() + "'");
  target().exec("create database replica tablespace small");
  create_filled("big", 20'000, 1000);
  create_filled("little", 100);
  const auto line = [&](const std::string& command, const Arguments& more = {}) {
    Arguments all{command, "--source", source().conninfo(), "--target", target().conninfo("replica")};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all);
  };
  const auto full = line("clone", {"--until", "caught-up"});
  EXPECT_EQ(full.code, 1) << full;
  EXPECT_THAT(full.err, HasSubstr("No space left on device"));
  EXPECT_THAT(full.err, HasSubstr("HINT: Check free disk space"));
  ASSERT_TRUE(disk.grow());
  const auto again = line("clone", {"--until", "caught-up"});
  EXPECT_EQ(again.code, 0) << again;

  ASSERT_TRUE(disk.shrink());
  source().exec(
      "update little set n = 1; insert into big select i, 1, repeat(md5(i::text), 32) from generate_series(30001, "
      "60000) i");
  const auto follow = line("follow", {"--until", "caught-up"});
  EXPECT_EQ(follow.code, 1) << follow;
  EXPECT_THAT(follow.err, HasSubstr("HINT: Check free disk space"));
  ASSERT_TRUE(disk.grow());
  const auto last = line("follow", {"--until", "caught-up"});
  EXPECT_EQ(last.code, 0) << last;
  EXPECT_THAT(differences(source().conninfo(), target().conninfo("replica")), IsEmpty());
  target().stop(StopMode::immediate);  // before its disk goes
}

// Same system identifier, new timeline: nothing of the target's own history matters but the progress row, which came
// along with the rows.
TEST_F(TargetTroubleTest, TargetFailsOverToItsStandby) {
  create_tables();
  clone_until_caught_up();
  ClusterOptions empty = target_options();
  empty.start = false;
  Cluster standby(empty);
  const auto data = standby.data_directory(), port = std::to_string(standby.port());
  std::filesystem::remove_all(data);
  run_checked({.arguments = {Cluster::bin_directory(15) + "/pg_basebackup", "-R", "-c", "fast", "-d",
                             target().conninfo(), "-D", data},
               .as_postgres = true});
  standby.set("port", port);
  standby.set("unix_socket_directories", standby.directory());
  standby.start();
  Load load(source().conninfo(), 2, "update a set n = n + 1 where id = 1 + (random() * 199)::int");
  const auto both = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(target().port()) + "," + port +
                    " user=postgres dbname=postgres";
  Tool follower({"follow", "--source", source().conninfo(), "--target", both});
  ASSERT_TRUE(marker_arrives()) << follower.err();
  follower.kill(SIGSTOP);  // so that the standby has everything that was confirmed
  const auto end = target().scalar("select pg_current_wal_flush_lsn()");
  ASSERT_TRUE(standby.wait_until("select pg_last_wal_replay_lsn() >= '" + end + "'", "t"));
  target().stop(StopMode::immediate);
  follower.kill(SIGCONT);
  // Until it is promoted it can be read only.
  EXPECT_TRUE(follower.wait_for_stderr("the target is a standby at the moment")) << follower.err();
  standby.exec("select pg_promote()");
  load.stop();
  const auto id = source().scalar("insert into marker default values returning id");
  EXPECT_TRUE(standby.wait_until("select count(*) from marker where id = " + id, "1", Milliseconds(60'000)))
      << follower.err();
  stop_follower(follower);
  EXPECT_THAT(differences(source().conninfo(), standby.conninfo()), IsEmpty());
  EXPECT_EQ(standby.scalar("select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"), "00000002");
}

}  // namespace
}  // namespace pgbaton::testing
