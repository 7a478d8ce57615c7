// S56: a slot's snapshot may call a transaction committed whose commit-status bit is not set yet. Reading it at once
// stamps such rows as aborted, for good, on the source. Settling waits for the bits (DESIGN 3.4).
//
// The window is as long as a backend needs from the flush of its commit record to the status bit: microseconds, or as
// long as the kernel lets it wait for a processor. The Freezer plays a very busy machine: it stops random backends for
// some milliseconds, most often while they wait for a flush that another one does for them. Recent minor releases of
// the server close the window themselves (no loss was seen on 15.20, several per minute on 12.22), so both are tested.
#include <signal.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/source/slot.hpp>

#include <random>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

class Freezer {
 public:
  explicit Freezer(std::vector<int> pids) : pids_(std::move(pids)) {
    for (unsigned seed = 0; seed < 4; ++seed) threads_.emplace_back(&Freezer::run, this, seed);
  }
  ~Freezer() {
    stop_ = true;
    for (auto& thread : threads_) thread.join();
    for (const int pid : pids_) kill(pid, SIGCONT);
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

 private:
  void run(unsigned seed) {
    std::mt19937 random(seed);
    while (!stop_) {
      const int pid = pids_[random() % pids_.size()];
      kill(pid, SIGSTOP);
      std::this_thread::sleep_for(Milliseconds(20 + random() % 80));
      kill(pid, SIGCONT);
    }
  }
  std::vector<int> pids_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class SettleTest : public PairTest, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr int kWriters = 18;
  ClusterOptions source_options() const override { return {.major = GetParam(), .settings = {{"fsync", "on"}}}; }
  void SetUp() override {
    ASSERT_TRUE(Cluster::available(GetParam())) << "run scripts/postgres " << GetParam();
    PairTest::SetUp();
  }

  std::unique_ptr<Load> start_writers() {
    log::configure(log::Level::warning, log::Format::text);
    source().exec("create table t (id bigint generated always as identity primary key, who int)");
    auto load = std::make_unique<Load>(source().socket_conninfo(), kWriters, [](Load::Turn& turn) {
      turn.session.exec("insert into t (who) values (" + std::to_string(turn.thread) + ")");
    });
    EXPECT_TRUE(load->wait_done(100));
    return load;
  }
  std::unique_ptr<Freezer> start_freezer() {
    std::vector<int> pids;
    for (const auto& row : source().query("select pid from pg_stat_activity where query like 'insert into t%'")) {
      pids.push_back(std::stoi(*row[0]));
    }
    return std::make_unique<Freezer>(pids);
  }
  // Takes a snapshot as clone, resume, resync and verify do, and reads the table in it at once.
  long long read_in_new_snapshot() {
    const pg::Endpoint endpoint{.conninfo = source().socket_conninfo(), .replica_name = "settle"};
    // A name of its own each time: the server drops a temporary slot a moment after its connection is gone.
    const auto name = "pgbaton_settle__tmp_" + std::to_string(++snapshots_);
    const auto snapshot = source::SlotSnapshot::create(endpoint, {.name = name, .temporary = true}, {});
    auto worker = source::open_snapshot_worker(endpoint, snapshot.snapshot_id(), "read");
    return std::stoll(worker.exec("select count(*) from public.t").text(0, 0));
  }
  int snapshots_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Major, SettleTest, ::testing::Values(12, 15), ::testing::PrintToStringParamName());

TEST_P(SettleTest, S56_SnapshotsReadAtOnceLoseNothing) {
  const char* given = std::getenv("PGBATON_SETTLE_SNAPSHOTS");
  const int snapshots = given ? std::atoi(given) : 200;
  const auto load = start_writers();
  auto freezer = start_freezer();
  long long previous = 0;
  for (int i = 0; i < snapshots; ++i) {
    const auto rows = read_in_new_snapshot();
    ASSERT_GE(rows, previous) << "rows vanished between two snapshots";
    previous = rows;
  }
  freezer.reset();
  const auto acknowledged = load->stop();
  EXPECT_THAT(load->errors(), ::testing::IsEmpty());
  EXPECT_EQ(source().number("select count(*) from t"), acknowledged) << "acknowledged inserts are gone on the source";
  source().exec("vacuum (freeze) t");
  EXPECT_EQ(source().number("select count(*) from t"), acknowledged);
  EXPECT_TRUE(source().wait_until("select count(*) from pg_replication_slots", "0"));
  if (GetParam() < 15) return;
  clone_until_caught_up();
  expect_equal();
}

#ifdef PGBATON_FAILPOINTS
// The proof that the test above can fail: the same with settling switched off, on a server that has the window. A race,
// so it goes on until rows are gone, and says so when its time is over without one.
class UnsettledTest : public SettleTest {};
INSTANTIATE_TEST_SUITE_P(Major, UnsettledTest, ::testing::Values(12), ::testing::PrintToStringParamName());

TEST_P(UnsettledTest, S56_WithoutSettlingAcknowledgedRowsVanish) {
  setenv("PGBATON_FAILPOINTS", "skip_settling=on", 1);
  const auto load = start_writers();
  auto freezer = start_freezer();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    read_in_new_snapshot();
    // Identity values are handed out before the commit: what is below all rows in flight and not there is lost.
    if (snapshots_ % 20 == 0 && source().number("select max(id) - count(*) from t") > 3 * kWriters) break;
    if (std::chrono::steady_clock::now() > end) break;
  }
  freezer.reset();
  const auto acknowledged = load->stop();
  const auto lost = acknowledged - source().number("select count(*) from t");
  RecordProperty("lost", static_cast<int>(lost));
  std::cerr << lost << " of " << acknowledged << " acknowledged inserts lost after " << snapshots_ << " snapshots\n";
  if (lost == 0) GTEST_SKIP() << "the race did not happen in 60 s";
  EXPECT_GT(lost, 0);
}
#endif

}  // namespace
}  // namespace pgbaton::testing
