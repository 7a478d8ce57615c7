// Cuts: while one is held the target holds exactly the transactions with commit LSN < X, under load, and goes on after.
#include <pgbaton/source/slot.hpp>

#include <optional>
#include <thread>

#include "replica_under_test.hpp"

namespace pgbaton::testing {
namespace {

class CutTest : public StreamTest {};

// The sum of all balances is 0 in every state that the source ever committed, and the number of moves tells which.
constexpr const char* kMove =
    "with x as (select (random() * 99)::int as a, (random() * 99)::int as b),"
    " u as (update account set balance = balance - 1 where id = (select a from x)),"
    " i as (insert into move (a, b) select a, b from x)"
    " insert into move (a, b) select b, a from x";

TEST_F(CutTest, BothSidesShowTheSameStateAtACut) {
  source().exec(
      "create table account (id int primary key, balance int); insert into account select i, 0 from generate_series(0, "
      "99) i;"
      "create table move (id bigserial primary key, a int, b int)");
  clone_until_caught_up();
  take_lease();
  stream::Stream stream(options(), replica_, *lease_);
  std::jthread runner(
      [&](const std::stop_token& stop) { EXPECT_EQ(stream.run(stream::OpenEnded{}, stop), stream::Ended::stopped); });
  Load load(source().conninfo(), 4, kMove);
  ASSERT_TRUE(load.wait_done(100));

  const std::string digest =
      "select count(*) || ' ' || coalesce(sum(id), 0) || ' ' || (select string_agg(id || ':' || balance, ',' order by "
      "id) from account) from move";
  for (int round = 0; round < 15; ++round) {
    auto resting = stream.rest();
    ASSERT_EQ(resting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    std::optional<stream::Cut> rest(resting.get());
    auto snapshot = source::SlotSnapshot::create(source_endpoint(),
                                                 {"cut_" + std::to_string(round), true, Milliseconds(10'000)}, {});
    auto waiting = stream.cut(snapshot.consistent_point());
    ASSERT_EQ(waiting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    const stream::Cut cut = waiting.get();
    rest.reset();  // no longer what holds the applier
    EXPECT_EQ(cut.lsn(), snapshot.consistent_point());
    auto worker = source::open_snapshot_worker(source_endpoint(), snapshot.snapshot_id(), "worker");
    const auto there = worker.exec("set search_path = public; " + digest).text(0, 0);
    EXPECT_EQ(target().scalar(digest), there);
  }
  load.stop();
  EXPECT_THAT(load.errors(), ::testing::IsEmpty());
  EXPECT_EQ(stream.status().reconnects, 0);
  runner.request_stop();
  runner.join();
  lease_.reset();
  expect_equal_after_drain();
}

TEST_F(CutTest, IsRefusedBehindTheAppliedPositionAndReachedOnAnIdleSource) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  take_lease();
  stream::Stream stream(options(), replica_, *lease_);
  std::jthread runner([&](const std::stop_token& stop) { stream.run(stream::OpenEnded{}, stop); });
  source().exec("insert into t values (1)");
  ASSERT_TRUE(target().wait_until("select count(*) from t", "1"));

  auto behind = stream.cut(replica_.consistent_point);
  ASSERT_EQ(behind.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_THROW(behind.get(), Error);

  const Lsn here = *parse_lsn(source().scalar("select pg_current_wal_flush_lsn()"));
  auto ahead = stream.cut(here);
  ASSERT_EQ(ahead.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  {
    const auto cut = ahead.get();
    source().exec("insert into t values (2)");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(target().number("select count(*) from t"), 1);  // the applier rests
  }
  EXPECT_TRUE(target().wait_until("select count(*) from t", "2"));
  runner.request_stop();
  runner.join();
}

TEST_F(CutTest, DoesNotHoldUpAStop) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  take_lease();
  stream::Stream stream(options(), replica_, *lease_);
  std::jthread runner([&](const std::stop_token& stop) { stream.run(stream::OpenEnded{}, stop); });
  auto waiting = stream.cut(*parse_lsn(source().scalar("select pg_current_wal_flush_lsn()")));
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  const auto cut = waiting.get();
  runner.request_stop();
  runner.join();
}

// A requester must not go on believing that the target rests, and the stream must not wait for a requester.
TEST_F(CutTest, EndsWithTheConnectionAndSaysSo) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  take_lease();
  stream::Stream stream(options(), replica_, *lease_);
  std::jthread runner([&](const std::stop_token& stop) { stream.run(stream::OpenEnded{}, stop); });
  auto waiting = stream.rest();
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  std::optional<stream::Cut> cut(waiting.get());
  EXPECT_TRUE(cut->held());
  source().exec("insert into t values (1)");
  target().exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'pgbaton/%'");
  EXPECT_TRUE(target().wait_until("select count(*) from t", "1", Milliseconds(30'000)));
  EXPECT_FALSE(cut->held());
  auto next = stream.rest();  // the one that is lost does not stand in the way
  ASSERT_EQ(next.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const auto second = next.get();
  EXPECT_TRUE(second.held());
  cut.reset();
  EXPECT_TRUE(second.held()) << "the lost cut released another one";
  runner.request_stop();
  runner.join();
  EXPECT_FALSE(second.held());
}

}  // namespace
}  // namespace pgbaton::testing
