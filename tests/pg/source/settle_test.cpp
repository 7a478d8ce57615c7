// S56: a slot's snapshot may call a transaction committed whose commit-status bit is not set yet. Reading it at once
// stamps such rows as aborted, for good, on the source. Settling waits for the bits (DESIGN 3.4).
#include <pgbaton/source/slot.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

class SettleTest : public PairTest {};

TEST_F(SettleTest, S56_SnapshotsReadAtOnceLoseNothing) {
  const char* given = std::getenv("PGBATON_SETTLE_SNAPSHOTS");
  const int snapshots = given ? std::atoi(given) : 200;
  source().exec("create table t (id bigint generated always as identity primary key, who int)");
  Load load(source().socket_conninfo(), 18, [](Load::Turn& turn) {
    turn.session.exec("insert into t (who) values (" + std::to_string(turn.thread) + ")");
  });
  ASSERT_TRUE(load.wait_done(100));
  const pg::Endpoint endpoint{.conninfo = source().socket_conninfo(), .replica_name = "settle"};
  long long previous = 0;
  for (int i = 0; i < snapshots; ++i) {
    const auto snapshot = source::SlotSnapshot::create(endpoint, {.name = "pgbaton_settle", .temporary = true}, {});
    auto worker = source::open_snapshot_worker(endpoint, snapshot.snapshot_id(), "read");
    const auto rows = std::stoll(worker.exec("select count(*) from public.t").text(0, 0));
    ASSERT_GE(rows, previous) << "rows vanished between two snapshots";
    previous = rows;
  }
  const auto acknowledged = load.stop();
  EXPECT_THAT(load.errors(), ::testing::IsEmpty());
  EXPECT_EQ(source().number("select count(*) from t"), acknowledged) << "acknowledged inserts are gone on the source";
  source().exec("vacuum (freeze) t");
  EXPECT_EQ(source().number("select count(*) from t"), acknowledged);
  EXPECT_THAT(leftovers(source().conninfo()), ::testing::IsEmpty());
  clone_until_caught_up();
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
