// Sessions that were to create a slot and outlived their client.
#include "source_fixture.hpp"

namespace pgbaton::testing {
namespace {

class ReleaseTest : public SourceTest {
 protected:
  // A walsender of this name that waits, with a slot half made, for the transaction that is open.
  std::unique_ptr<Session> begin_slot(const std::string& application_name, const std::string& slot) {
    auto session =
        std::make_unique<Session>(cluster().conninfo() + " replication=database application_name=" + application_name);
    session->send("CREATE_REPLICATION_SLOT " + slot + " LOGICAL pgoutput EXPORT_SNAPSHOT");
    EXPECT_TRUE(cluster().wait_until(
        "select count(*) from pg_locks where not granted and pid = " + std::to_string(session->backend_pid()), "1"));
    return session;
  }
  bool alive(int pid) {
    return cluster().number("select count(*) from pg_stat_activity where pid = " + std::to_string(pid)) == 1;
  }
};

// The server does not notice that the client is gone, and would make the slot when the transaction ends. Only sessions
// of this replica that create slots are ended.
TEST_P(ReleaseTest, CreatorsOfOneReplicaAreEndedAndMakeNoSlot) {
  exec("create table t (id int)");
  auto writer = cluster().session();
  writer.exec("begin; insert into t values (1)");
  auto gone = begin_slot("pgbaton/mine/slot", "gone");
  const int gone_pid = gone->backend_pid();
  gone.reset();
  const auto waiting = begin_slot("pgbaton/mine/slot", "waiting");
  const auto other = begin_slot("pgbaton/mine_too/slot", "other");
  const auto stream = begin_slot("pgbaton/mine/stream", "stream");
  Session plain(cluster().conninfo() + " application_name=pgbaton/mine/slot");  // no walsender
  EXPECT_TRUE(alive(gone_pid));

  source::end_slot_creators(control(), "mine");
  EXPECT_FALSE(alive(gone_pid));
  EXPECT_FALSE(alive(waiting->backend_pid()));
  EXPECT_TRUE(alive(other->backend_pid()));
  EXPECT_TRUE(alive(stream->backend_pid()));
  EXPECT_TRUE(alive(plain.backend_pid()));
  source::end_slot_creators(control(), "mine");  // nobody is left: returns at once

  writer.exec("commit");
  other->finish();
  stream->finish();
  EXPECT_EQ(cluster().scalar("select string_agg(slot_name, ' ' order by slot_name) from pg_replication_slots"),
            "other stream");
  EXPECT_EQ(plain.number("select 1"), 1);
}

INSTANTIATE_TEST_SUITE_P(Majors, ReleaseTest, ::testing::Values(12, 15, 18), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pgbaton::testing
