// VACUUM, CLUSTER and autovacuum of either server get in the tool's way: it waits for what a person has started, and
// says so.
#include <signal.h>

#include "faults.hpp"

namespace pgbaton::testing {
namespace {

// So slow that a table of some hundred pages takes a minute.
constexpr const char* kSlowly = "set vacuum_cost_delay = '100ms'; set vacuum_cost_limit = 1";

class VacuumTest : public PairTest {
 protected:
  ClusterOptions target_options() const override {
    return {.settings = {{"autovacuum_naptime", "1s"}, {"deadlock_timeout", "2500ms"}}};
  }

  static std::unique_ptr<Session> send_vacuum(Cluster& cluster, const std::string& table) {
    auto session = std::make_unique<Session>(cluster.conninfo());
    session->exec(kSlowly);
    session->send("vacuum (disable_page_skipping) " + table);
    return session;
  }
  // Holds SHARE UPDATE EXCLUSIVE on the table until it is cancelled.
  static std::unique_ptr<Session> begin_vacuum(Cluster& cluster, const std::string& table) {
    auto session = send_vacuum(cluster, table);
    EXPECT_TRUE(
        cluster.wait_until("select count(*) from pg_stat_progress_vacuum where phase = 'scanning heap' and "
                           "pid = " +
                               std::to_string(session->backend_pid()),
                           "1"));
    return session;
  }
  static void end_vacuum(Cluster& cluster, Session& session) {
    cluster.exec("select pg_cancel_backend(" + std::to_string(session.backend_pid()) + ")");
    EXPECT_THROW(session.finish(), SqlError);
  }
  // One of the tool's sessions waits for a lock on this table.
  static bool wait_blocked(Cluster& cluster, const std::string& table) {
    return cluster.wait_until(
        "select count(*) > 0 from pg_locks l join pg_stat_activity using (pid) where not granted "
        "and relation = '" +
            table + "'::regclass and application_name like 'pgbaton/%'",
        "t", Milliseconds(30'000));
  }
};

TEST_F(VacuumTest, CloneGoesOnBesideAutovacuumAndWaitsForAPersonsVacuum) {
  create_filled("big", 3000, 1000);
  // Comes to the target with the table: analyzed at once, and slowly.
  source().exec(
      "alter table big set (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0, "
      "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)");
  create_filled("small", 2000, 1000);
  // On the source: the publication takes a lock that VACUUM has, too.
  auto on_source = begin_vacuum(source(), "small");
  auto clone = start("clone", {"--until", "caught-up", "--jobs", "1"},
                     {{"PGBATON_FAILPOINTS", "table_copied=freeze@1,copy_table_half=freeze@2"}});
  EXPECT_TRUE(wait_blocked(source(), "small")) << clone.err();
  end_vacuum(source(), *on_source);

  // On the target, which is to get an index and a guard column: autovacuum has the large table by now.
  ASSERT_TRUE(wait_frozen(clone)) << clone.err();
  const std::string autovacuum =
      "select count(*) from pg_locks l join pg_stat_activity using (pid) where backend_type = 'autovacuum worker' and "
      "granted and mode = 'ShareUpdateExclusiveLock' and relation = 'big'::regclass";
  ASSERT_TRUE(target().wait_until(autovacuum, "1", Milliseconds(60'000)));
  clone.kill(SIGCONT);

  // A person's VACUUM that gets the other table as soon as its rows are committed.
  ASSERT_TRUE(wait_frozen(clone)) << clone.err();
  auto on_target = send_vacuum(target(), "small");
  const auto pid = std::to_string(on_target->backend_pid());
  ASSERT_TRUE(target().wait_until("select count(*) from pg_locks where not granted and pid = " + pid, "1"));
  clone.kill(SIGCONT);
  EXPECT_TRUE(
      target().wait_until("select count(*) from pg_index where indrelid = 'big'::regclass", "1", Milliseconds(60'000)))
      << clone.err();
  EXPECT_TRUE(clone.wait_for_stderr("creating CONSTRAINT public.small.* waits for a lock on the target: .*pid " + pid +
                                    " .vacuum"))
      << clone.err();
  end_vacuum(target(), *on_target);
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 0) << result;
  expect_equal();
}

TEST_F(VacuumTest, StreamAndFinishWaitForVacuumAndCluster) {
  target().set("autovacuum", "off");
  target().reload();
  create_filled("t", 2000, 1000);
  create_filled("cut", 2000, 1000);
  create_marker();
  clone_until_caught_up();
  Load load(source().conninfo(), 2, [](Load::Turn& turn) {
    turn.session.exec("update t set n = n + 1 where id = 1 + (random() * 1999)::int");
    std::this_thread::sleep_for(Milliseconds(2));
  });
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives()) << follower.err();

  // Plain VACUUM is in nobody's way but TRUNCATE's; CLUSTER and VACUUM FULL are in everybody's, and move the rows.
  auto vacuum = begin_vacuum(target(), "t");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  end_vacuum(target(), *vacuum);
  vacuum = begin_vacuum(target(), "cut");
  source().exec("begin; truncate cut; insert into cut values (1, 1, 'after'); commit");
  EXPECT_TRUE(wait_blocked(target(), "cut")) << follower.err();
  end_vacuum(target(), *vacuum);
  EXPECT_TRUE(marker_arrives()) << follower.err();
  EXPECT_EQ(target().scalar("select string_agg(pad, ',') from cut"), "after");

  auto holder = target().session();
  holder.exec("begin; cluster t using t_pkey");
  EXPECT_TRUE(wait_blocked(target(), "t")) << follower.err();
  holder.exec("commit");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  for (int i = 0; i < 5; ++i) target().exec("vacuum full t");
  load.stop();
  EXPECT_THAT(load.errors(), ::testing::IsEmpty());
  EXPECT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
  expect_equal();

  vacuum = begin_vacuum(target(), "t");
  auto finish = start("finish");
  EXPECT_TRUE(finish.wait_for_stderr("dropping the guard of .*waiting for a lock")) << finish.err();
  end_vacuum(target(), *vacuum);
  const auto finished = finish.wait();
  EXPECT_EQ(finished.code, 0) << finished;
  EXPECT_THAT(target_leftovers(target().conninfo()), ::testing::IsEmpty());
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
