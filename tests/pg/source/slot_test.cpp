// The first half of the handoff: slots, their snapshots, and what is left behind when it fails (nothing).
#include <fmt/format.h>
#include <stdlib.h>

#include <optional>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <random>

#include "source_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SlotTest : public SourceTest {
 protected:
  void SetUp() override {
    log::configure(log::Level::debug, log::Format::text);
    SourceTest::SetUp();
  }
  std::multiset<long long> ids_in(const source::SlotSnapshot& snapshot, const std::string& table) {
    auto worker = source::open_snapshot_worker(endpoint, snapshot.snapshot_id(), "read");
    const auto result = worker.exec("select id from public." + table);
    std::multiset<long long> ids;
    for (int i = 0; i < result.rows(); ++i) ids.insert(std::stoll(result.text(i, 0)));
    return ids;
  }
  std::multiset<long long> ids_now(const std::string& table) {
    std::multiset<long long> ids;
    for (const auto& row : cluster().query("select id from " + table)) ids.insert(std::stoll(*row[0]));
    return ids;
  }
};

// S03: four sessions begin, write and end their transactions in any order while slots are made. Whatever the order, a
// row is in the snapshot or in the stream, once, and a transaction is wholly in one of them.
TEST_P(SlotTest, S03_SnapshotAndStreamShareEveryTransactionExactly) {
  exec("create table t (id bigint generated always as identity primary key, xact text)");
  publish({"t"});
  std::atomic<unsigned> seed{1};
  Load load(cluster().conninfo(), 4, [&](Load::Turn& turn) {
    std::mt19937 random(seed++);
    const auto xact = std::to_string(turn.thread) + "/" + std::to_string(turn.round);
    const auto insert = "insert into t (xact) values ('" + xact + "')";
    turn.session.exec("begin");
    for (unsigned i = 0, n = 1 + random() % 4; i < n; ++i) {
      const bool rolled_back = random() % 5 == 0;
      if (rolled_back) turn.session.exec("savepoint s");
      turn.session.exec(insert);
      if (rolled_back) turn.session.exec("rollback to s");
      std::this_thread::sleep_for(Milliseconds(random() % 8));
    }
    turn.session.exec(random() % 4 == 0 ? "rollback" : "commit");
  });
  const auto first = take("first");
  const auto before = ids_in(first, "t");
  std::vector<std::pair<Lsn, std::multiset<long long>>> more;
  for (int i = 0; i < 12; ++i) {
    const auto snapshot = take("tmp_" + std::to_string(i), true);
    more.emplace_back(snapshot.consistent_point(), ids_in(snapshot, "t"));
  }
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());

  auto reader = read("first", first.consistent_point());
  const auto streamed = read_until(*reader, source::emit_barrier(control()));
  EXPECT_TRUE(streamed.in_order);
  auto all = streamed.ids();
  all.insert(before.begin(), before.end());
  EXPECT_EQ(all, ids_now("t"));
  EXPECT_GT(streamed.inserts.size(), 10u);
  EXPECT_GE(streamed.inserts.begin()->first, first.consistent_point());
  // A later snapshot is the first one and what the stream says of transactions below its consistent point.
  for (const auto& [boundary, seen] : more) {
    auto expected = before;
    for (const auto& [commit_lsn, ids] : streamed.inserts) {
      if (commit_lsn < boundary) expected.insert(ids.begin(), ids.end());
    }
    EXPECT_EQ(seen, expected) << to_string(boundary);
  }
}

// S04: also prepared transactions and those of other databases.
TEST_P(SlotTest, S04_BlockersAreNamedAndNothingIsLeft) {
  exec("create table t (id int primary key)");
  exec("create database other");
  cluster().exec("create table o (id int); ", "other");
  auto writer = cluster().session(), elsewhere = cluster().session("other");
  elsewhere.exec("begin; insert into o values (1); prepare transaction 'the gid'");
  writer.exec("begin; insert into t values (1)");
  writer.exec("select 'the query'");
  const auto started = Clock::now();
  const auto error = error_of([&] { take("pgbaton", false, Milliseconds(1000)); });
  EXPECT_LT(Clock::now() - started, std::chrono::seconds(5));
  EXPECT_EQ(error.kind(), ErrorKind::timed_out);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("pid " + std::to_string(writer.backend_pid())), HasSubstr("the query"),
                                     HasSubstr("'the gid'"), HasSubstr("database other"), HasSubstr("within 1.0 s")));
  EXPECT_THAT(error.hint(), HasSubstr("--slot-wait"));
  expect_nothing_left();

  // A role that may not see the statistics of others still learns the pid.
  exec("create role plain login");
  const auto plain = pg::open_control({Side::source, cluster().conninfo("postgres", "plain"), "test"}, "control");
  const auto blockers = source::load_blockers(*plain);
  ASSERT_EQ(blockers.size(), 2u);
  EXPECT_TRUE(std::ranges::any_of(blockers, [&](const auto& b) { return b.pid == writer.backend_pid(); }));

  writer.exec("commit");
  elsewhere.exec("commit prepared 'the gid'");
  EXPECT_EQ(ids_in(take("pgbaton"), "t").size(), 1u);
}

TEST_P(SlotTest, StopEndsTheWaitAndLeavesNothing) {
  exec("create table t (id int primary key)");
  auto writer = cluster().session();
  writer.exec("begin; insert into t values (1)");
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(Milliseconds(300));
    stop.request_stop();
  });
  const auto started = Clock::now();
  const auto error = error_of([&] {
    source::SlotSnapshot::create(endpoint, {.name = "pgbaton", .wait = Milliseconds(60'000)}, stop.get_token());
  });
  EXPECT_EQ(error.kind(), ErrorKind::failed);
  EXPECT_THAT(error.message(), HasSubstr("interrupted"));
  EXPECT_LT(Clock::now() - started, std::chrono::seconds(3));
  expect_nothing_left();
}

TEST_P(SlotTest, ExistingSlotIsNeverAdopted) {
  exec("select pg_create_logical_replication_slot('pgbaton', 'pgoutput')");
  const auto error = error_of([&] { take("pgbaton"); });
  EXPECT_EQ(error.kind(), ErrorKind::preflight);
  EXPECT_THAT(error.message(), HasSubstr("already exists"));
  EXPECT_TRUE(source::load_slot(control(), "pgbaton")) << "somebody else's slot was dropped";
}

// S57. The server's limit of ids in a snapshot is about the number of its processes, and every savepoint with a write
// counts: one transaction with 400 of them, open while younger ones commit, is too much.
TEST_P(SlotTest, S57_SnapshotTooLargeIsTriedAgainThenNamed) {
  exec("create table t (id bigint generated always as identity primary key); create table u (id int)");
  std::string savepoints = "begin;";
  for (int i = 0; i < 400; ++i) savepoints += "insert into t default values; savepoint s;";
  Load light(cluster().conninfo(), 1, "insert into u values (1)");
  // Two sessions that take turns: the next has its savepoints before the one before commits, so no moment is without.
  auto load = std::make_unique<Load>(cluster().conninfo(), 1,
                                     [=, other = std::make_shared<Session>(cluster().session())](Load::Turn& turn) {
                                       auto& next = turn.round % 2 == 0 ? turn.session : *other;
                                       auto& before = turn.round % 2 == 0 ? *other : turn.session;
                                       next.exec(savepoints);
                                       if (turn.round > 0) before.exec("commit");
                                       std::this_thread::sleep_for(Milliseconds(200));
                                     });
  ASSERT_TRUE(load->wait_done(2));
  ::testing::internal::CaptureStderr();
  // On a busy machine a moment without may be met all the same: the slot is there then, and the test begins again.
  std::optional<Error> error;
  for (int attempt = 0; attempt < 10 && !error; ++attempt) {
    try {
      take("pgbaton", false, Milliseconds(4000));
      ASSERT_TRUE(cluster().wait_until("select bool_or(active) from pg_replication_slots", "f"));
      exec("select pg_drop_replication_slot('pgbaton')");
    } catch (const Error& thrown) {
      error = thrown;
    }
  }
  const auto log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(error) << log;
  EXPECT_EQ(error->kind(), ErrorKind::timed_out);
  EXPECT_THAT(log, HasSubstr("savepoints; trying again"));
  EXPECT_THAT(error->message(), AllOf(HasSubstr("savepoint"), HasSubstr("pid ")));
  EXPECT_FALSE(source::load_slot(control(), "pgbaton"));
  // With gaps between them the slot comes.
  load = std::make_unique<Load>(cluster().conninfo(), 4, [=](Load::Turn& turn) {
    std::this_thread::sleep_for(Milliseconds(turn.round == 0 ? 200 * turn.thread : 200));
    turn.session.exec(savepoints);
    turn.session.exec("commit");
  });
  EXPECT_EQ(ids_in(take("pgbaton"), "t").size() % 400, 0u) << "a transaction was torn";
  load->stop();
  EXPECT_THAT(load->errors(), IsEmpty());
}

// S08: only the holder counts. S09: its death is seen at once, and is never a copy under another snapshot.
TEST_P(SlotTest, SnapshotLivesAsLongAsItsHolder) {
  exec("create table t (id int primary key); insert into t values (1)");
  const auto snapshot = take("pgbaton");
  exec("insert into t values (2)");
  exec("select pg_terminate_backend(active_pid) from pg_replication_slots where active");
  exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgbaton/test/slot'");
  exec("alter system set timezone = 'Asia/Tokyo'");
  cluster().reload();
  std::this_thread::sleep_for(Milliseconds(200));
  EXPECT_TRUE(snapshot.alive());
  auto worker = source::open_snapshot_worker(endpoint, snapshot.snapshot_id(), "copy-1");
  EXPECT_EQ(worker.exec("select count(*) from public.t").text(0, 0), "1");

  exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgbaton/test/holder'");
  ASSERT_TRUE(cluster().wait_until(
      "select count(*) from pg_stat_activity where application_name = 'pgbaton/test/holder'", "0"));
  // A backend leaves pg_stat_activity before its socket closes.
  for (const auto since = Clock::now(); snapshot.alive() && Clock::now() - since < std::chrono::seconds(10);)
    std::this_thread::sleep_for(Milliseconds(10));
  EXPECT_FALSE(snapshot.alive());
  EXPECT_EQ(worker.exec("select count(*) from public.t").text(0, 0), "1") << "imported snapshots live on";
  const auto error = error_of([&] { source::open_snapshot_worker(endpoint, snapshot.snapshot_id(), "copy-1"); });
  EXPECT_EQ(error.action(), Action::retry);
  EXPECT_THAT(error.message(), HasSubstr("snapshot gone"));
}

// The role's own settings would end holder, workers and slot creation (S06).
TEST_P(SlotTest, S06_TimeoutsOfTheRoleDoNotReachUs) {
  exec("create table t (id int primary key); insert into t values (1)");
  exec(
      "create role rep login replication; grant select on t to rep;"
      "alter role rep set statement_timeout = '200ms'; alter role rep set lock_timeout = '200ms';"
      "alter role rep set idle_in_transaction_session_timeout = '200ms';"
      "alter role rep set default_transaction_isolation = 'serializable'");
  if (since(14)) exec("alter role rep set idle_session_timeout = '200ms'");
  if (since(17)) exec("alter role rep set transaction_timeout = '200ms'");
  endpoint.conninfo = cluster().conninfo("postgres", "rep");
  auto writer = cluster().session();
  writer.exec("begin; insert into t values (2)");
  std::jthread later([&] {
    std::this_thread::sleep_for(Milliseconds(700));
    writer.exec("commit");
  });
  const auto snapshot = take("pgbaton");
  std::this_thread::sleep_for(Milliseconds(500));
  EXPECT_TRUE(snapshot.alive());
  EXPECT_EQ(ids_in(snapshot, "t").size(), 2u);
}

#ifdef PGBATON_FAILPOINTS
TEST_P(SlotTest, FailureAfterCreationDropsTheSlot) {
  setenv("PGBATON_FAILPOINTS", "slot_created=error@1,snapshot_settled=stop@1", 1);
  EXPECT_THAT(error_of([&] { take("pgbaton"); }).message(), HasSubstr("slot_created"));
  expect_nothing_left();
  EXPECT_THAT(error_of([&] { take("pgbaton"); }).message(), HasSubstr("snapshot_settled"));
  expect_nothing_left();
  take("pgbaton");
  EXPECT_TRUE(source::load_slot(control(), "pgbaton"));
}
#endif

TEST_P(SlotTest, SlotsAreDroppedWhoeverHoldsThem) {
  EXPECT_FALSE(source::drop_slot(control(), "pgbaton", true));
  publish({});
  const auto lsn = take("pgbaton").consistent_point();
  const auto reader = read("pgbaton", lsn);
  const auto slot = source::load_slot(control(), "pgbaton");
  ASSERT_TRUE(slot && slot->active && !slot->temporary);
  EXPECT_EQ(slot->plugin + " " + slot->database, "pgoutput postgres");
  EXPECT_EQ(slot->wal_status, since(13) ? "reserved" : "");
  const auto error = error_of([&] { source::drop_slot(control(), "pgbaton", false); });
  EXPECT_EQ(error.action(), Action::retry);
  EXPECT_THAT(error.message(), HasSubstr(std::to_string(slot->active_pid)));
  EXPECT_TRUE(source::drop_slot(control(), "pgbaton", true));
  EXPECT_FALSE(source::load_slot(control(), "pgbaton"));
  const auto temporary = take("pgbaton__tmp_1", true);
  EXPECT_TRUE(source::drop_slot(control(), "pgbaton__tmp_1", true));
  EXPECT_FALSE(source::load_slot(control(), "pgbaton__tmp_1"));
  // The same name in another database is another replica's.
  exec("create database others");
  const auto other = pg::open_control({Side::source, cluster().conninfo("others"), "test"}, "control");
  take("pgbaton");
  EXPECT_FALSE(source::drop_slot(*other, "pgbaton", true));
  EXPECT_TRUE(source::drop_slot(control(), "pgbaton", true));
}

TEST_P(SlotTest, BarrierLiesBehindEverythingCommittedBefore) {
  exec("create table t (id int primary key)");
  publish({"t"});
  const auto lsn = take("pgbaton").consistent_point();
  exec("insert into t values (1)");
  const Lsn before = require_lsn(cluster().scalar("select pg_current_wal_insert_lsn()"), "LSN");
  const Lsn barrier_lsn = source::emit_barrier(control());
  EXPECT_GE(barrier_lsn, before);
  // Told to be committed, and flushed by nobody yet.
  exec("alter system set wal_writer_delay = '10s'");
  cluster().reload();
  ASSERT_TRUE(cluster().wait_until("show wal_writer_delay", "10s"));
  exec("set synchronous_commit = off; insert into t values (2)");
  const Lsn acknowledged = require_lsn(cluster().scalar("select pg_current_wal_insert_lsn()"), "LSN");
  EXPECT_GE(catalog::current_insert_lsn(control()), acknowledged);
  EXPECT_GE(source::emit_barrier(control()), acknowledged);
  const auto reader = read("pgbaton", lsn);
  const auto streamed = read_until(*reader, barrier_lsn);
  EXPECT_EQ(streamed.ids().size(), 1u);
  if (since(14)) {
    EXPECT_THAT(streamed.messages, ElementsAre("pgbaton"));
  }
  exec(
      "create role plain login; do $$ begin execute (select string_agg(format('revoke all on function %s from public', "
      "oid::regprocedure), ';') from pg_proc where proname = 'pg_logical_emit_message'); end $$");
  const auto plain = pg::open_control({Side::source, cluster().conninfo("postgres", "plain"), "test"}, "control");
  exec("set synchronous_commit = off; insert into t values (3)");
  const Lsn told = require_lsn(cluster().scalar("select pg_current_wal_insert_lsn()"), "LSN");
  EXPECT_GE(source::emit_barrier(*plain), told);
  // What an open transaction wrote stands before it, and is flushed for its sake.
  exec("alter system reset wal_writer_delay");
  cluster().reload();
  ASSERT_TRUE(cluster().wait_until("show wal_writer_delay", "200ms"));
  auto open = cluster().session();
  open.exec("begin; insert into t values (4)");
  const Lsn behind = source::emit_barrier(*plain);
  EXPECT_TRUE(cluster().wait_until(fmt::format("select pg_current_wal_flush_lsn() >= '{}'", to_string(behind)), "t",
                                   Milliseconds(4000)));
  open.exec("rollback");
  // Behind the header of a page that is not begun there is nothing to wait for.
  for (int i = 0; i < 3; ++i) {
    exec("select pg_switch_wal()");
    const Lsn insert_lsn = catalog::current_insert_lsn(control());
    EXPECT_LE(insert_lsn, require_lsn(cluster().scalar("select pg_current_wal_flush_lsn()"), "LSN"));
  }
}

INSTANTIATE_TEST_SUITE_P(Majors, SlotTest, ::testing::Values(12, 15, 18), ::testing::PrintToStringParamName());

class HistoryTest : public SourceTest {
 protected:
  std::vector<std::pair<std::string, std::string>> settings() const override {
    std::vector<std::pair<std::string, std::string>> all{{"min_wal_size", "32MB"}};
    if (GetParam() >= 13) all.emplace_back("max_slot_wal_keep_size", "1MB");
    return all;
  }
};

TEST_P(HistoryTest, EveryBreakIsNamed) {
  const auto lsn = take("pgbaton").consistent_point();
  const auto id = static_cast<std::uint64_t>(cluster().number("select system_identifier from pg_control_system()"));
  source::ExpectedHistory good{"pgbaton", "postgres", id, 1, lsn, lsn, {}, {}};
  EXPECT_EQ(source::require_history(control(), endpoint, good), 1u);
  const auto lost = [&](auto change) {
    auto expected = good;
    change(expected);
    const auto error = error_of([&] { source::require_history(control(), endpoint, expected); });
    EXPECT_EQ(error.kind(), ErrorKind::boundary_lost);
    EXPECT_FALSE(error.hint().empty());
    return error.message();
  };
  EXPECT_THAT(lost([](auto& e) { e.system_identifier++; }), HasSubstr("another cluster"));
  EXPECT_THAT(lost([](auto& e) { e.timeline = 2; }), HasSubstr("timeline 1"));
  EXPECT_THAT(lost([](auto& e) { e.slot_restart_lsn.value = e.applied_lsn.value + 1; }), HasSubstr("back in time"));
  EXPECT_THAT(lost([](auto& e) { e.seen_lsn.value += 1u << 30; }), HasSubstr("back in time"));
  EXPECT_THAT(lost([](auto& e) { e.applied_lsn.value -= 1; }), HasSubstr("advanced, read by someone else"));
  EXPECT_THAT(lost([](auto& e) { e.slot = "missing"; }), HasSubstr("does not exist"));
  EXPECT_THAT(lost([](auto& e) { e.database = "other"; }), HasSubstr("built from \"other\""));
  exec("select pg_create_physical_replication_slot('physical')");
  EXPECT_THAT(lost([](auto& e) { e.slot = "physical"; }), HasSubstr("not ours"));

  if (!since(13)) return;
  // S21
  for (int i = 0; i < 8; ++i) exec("create table x (a int); drop table x; select pg_switch_wal(); checkpoint");
  EXPECT_THAT(lost([](auto&) {}), AllOf(HasSubstr("is lost"), HasSubstr("max_slot_wal_keep_size")));
  const auto slot = source::load_slot(control(), "pgbaton");
  EXPECT_EQ(slot->wal_status, "lost");
  if (since(17)) {
    EXPECT_EQ(slot->invalidation_reason, "wal_removed");
  }
  EXPECT_EQ(error_of([&] { read("pgbaton", lsn); }).kind(), ErrorKind::boundary_lost);
}
INSTANTIATE_TEST_SUITE_P(Majors, HistoryTest, ::testing::Values(12, 15, 18), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pgbaton::testing
