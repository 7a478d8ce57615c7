// The walsender reader against real servers.
#include <sys/resource.h>

#include "source_fixture.hpp"
#include "support/promptly.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReaderTest : public SourceTest {
 protected:
  void SetUp() override {
    SourceTest::SetUp();
    if (IsSkipped()) return;
    exec("create table t (id bigint generated always as identity primary key, pad text)");
    publish({"t"});
    start_lsn = take("pgbaton").consistent_point();
  }
  Lsn confirmed() { return source::load_slot(control(), "pgbaton")->confirmed_flush_lsn; }
  bool wait_confirmed(Lsn lsn) {
    return cluster().wait_until("select confirmed_flush_lsn >= '" + to_string(lsn) + "' from pg_replication_slots", "t",
                                Milliseconds(5000));
  }
  Lsn start_lsn;
};

TEST_P(ReaderTest, ConfirmedTransactionsAreNotSentAgainAndOthersAre) {
  for (int i = 0; i < 5; ++i) exec("insert into t (pad) select 'x' from generate_series(1, 100)");
  Lsn end_lsn;
  {
    const auto reader = read("pgbaton", start_lsn);
    EXPECT_EQ(reader->confirmed_lsn(), start_lsn);
    const auto streamed = read_until(*reader, source::emit_barrier(control()));
    EXPECT_TRUE(streamed.in_order);
    EXPECT_EQ(streamed.ids().size(), 500u);
    EXPECT_EQ(streamed.inserts.size(), 5u);
    end_lsn = streamed.last_end_lsn;
  }
  // Nothing was confirmed: all of it comes again, from the slot that the end of the reader has freed.
  EXPECT_FALSE(source::load_slot(control(), "pgbaton")->active);
  EXPECT_EQ(confirmed(), start_lsn);
  {
    const auto reader = read("pgbaton", start_lsn);
    EXPECT_EQ(read_until(*reader, end_lsn).ids().size(), 500u);
    reader->confirm(end_lsn);
    reader->confirm(start_lsn);
  }
  EXPECT_EQ(confirmed(), end_lsn) << "what is confirmed is told before the end, and never taken back";
  exec("insert into t (pad) values ('new')");
  const auto reader = read("pgbaton", end_lsn);
  EXPECT_EQ(read_until(*reader, source::emit_barrier(control())).ids().size(), 1u);
}

TEST_P(ReaderTest, ConfirmIsToldAtOnceWhenIdle) {
  const auto reader = read("pgbaton", start_lsn);
  exec("insert into t (pad) values ('x')");
  const Lsn end_lsn = read_until(*reader, source::emit_barrier(control())).last_end_lsn;
  std::atomic<bool> told{false};
  std::jthread later([&] {
    std::this_thread::sleep_for(Milliseconds(200));
    reader->confirm(end_lsn);
    std::this_thread::sleep_for(Milliseconds(300));
    told = reader->confirmed_lsn() == end_lsn;
  });
  const auto deadline = Deadline::after(Milliseconds(1500));
  while (!deadline.passed()) reader->next(deadline);
  EXPECT_TRUE(told) << "a reader that waits must be woken";
  EXPECT_TRUE(wait_confirmed(end_lsn));
}

// S60, and a slot that keeps no WAL though nobody writes to its tables.
TEST_P(ReaderTest, S60_IdleSourceReportsItsFlushPosition) {
  const auto reader = read("pgbaton", start_lsn);
  for (int i = 0; i < 3; ++i) {
    exec("select pg_switch_wal()");
    const auto started = Clock::now();
    const Lsn flush_lsn = require_lsn(cluster().scalar("select pg_current_wal_flush_lsn()"), "LSN");
    const auto streamed = read_until(*reader, flush_lsn, kPromptly);
    EXPECT_LT(Clock::now() - started, kPromptly);
    EXPECT_THAT(streamed.ids(), IsEmpty());
    reader->confirm(streamed.position_lsn);
    // A message that waits already comes before the moment that is quiet enough to tell.
    while (!std::holds_alternative<source::Idle>(reader->next(Deadline::after(Milliseconds(50))))) {
    }
    EXPECT_TRUE(wait_confirmed(flush_lsn));
    exec("create table unpublished" + std::to_string(i) + " (a int)");
  }
}

TEST_P(ReaderTest, QuietStreamIsReadAtOnce) {
  const auto reader = read("pgbaton", start_lsn);
  auto writer = cluster().session();
  read_until(*reader, source::emit_barrier(control()));
  std::vector<double> milliseconds;
  for (int i = 0; i < 20; ++i) {
    writer.exec("insert into t (pad) values ('x')");
    const auto committed = Clock::now();
    for (bool seen = false; !seen;) {
      const auto event = reader->next(Deadline::after(Milliseconds(1000)));
      ASSERT_FALSE(std::holds_alternative<source::Idle>(event));
      const auto* frame = std::get_if<source::Frame>(&event);
      seen = frame != nullptr && static_cast<char>(frame->body[0]) == 'C';
    }
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - committed).count());
    while (!std::holds_alternative<source::Idle>(reader->next(Deadline::after(Milliseconds(30))))) {
    }
  }
  std::ranges::sort(milliseconds);
  EXPECT_LT(milliseconds[10], 5.0) << "median";
}

TEST_P(ReaderTest, StopWakesAWaitingReader) {
  const auto reader = read("pgbaton", start_lsn);
  std::jthread later([&] {
    std::this_thread::sleep_for(Milliseconds(200));
    reader->stop();
  });
  const auto started = Clock::now();
  source::ReadEvent event = source::Idle{};
  while (!std::holds_alternative<source::Stopped>(event)) event = reader->next(Deadline::after(Milliseconds(20'000)));
  EXPECT_LT(Clock::now() - started, kPromptly);
  EXPECT_TRUE(std::holds_alternative<source::Stopped>(reader->next(Deadline::never())));
}

TEST_P(ReaderTest, StopComesBeforeWhatIsStillToBeRead) {
  exec("insert into t (pad) select repeat('x', 100) from generate_series(1, 20000)");
  const auto reader = read("pgbaton", start_lsn);
  for (int frames = 0; frames < 1000;) {
    frames += std::holds_alternative<source::Frame>(reader->next(Deadline::after(Milliseconds(5000))));
  }
  reader->stop();
  EXPECT_TRUE(std::holds_alternative<source::Stopped>(reader->next(Deadline::never())));
}

// A walsender that is in the middle of a large transaction does not listen to a polite end.
TEST_P(ReaderTest, EndInTheMiddleOfALargeTransactionFreesTheSlot) {
  exec("insert into t (pad) select repeat('x', 500) from generate_series(1, 60000)");
  auto reader = read("pgbaton", start_lsn);
  while (!std::holds_alternative<source::Frame>(reader->next(Deadline::after(Milliseconds(20'000))))) {
  }
  const auto started = Clock::now();
  reader.reset();
  EXPECT_LT(Clock::now() - started, kPromptly);
  EXPECT_TRUE(cluster().wait_until("select active from pg_replication_slots", "f", Milliseconds(1000)));
}

TEST_P(ReaderTest, WhatCannotBeReadIsNamed) {
  const auto reader = read("pgbaton", start_lsn);
  const auto in_use = error_of([&] { read("pgbaton", start_lsn); });
  EXPECT_EQ(in_use.sqlstate(), "55006");
  EXPECT_EQ(in_use.action(), Action::retry);
  const auto gone = error_of([&] { read("missing", start_lsn); });
  EXPECT_EQ(gone.kind(), ErrorKind::boundary_lost);
  EXPECT_THAT(gone.message(), HasSubstr("reading slot \"missing\""));
  EXPECT_FALSE(gone.hint().empty());

  exec("select pg_terminate_backend(active_pid) from pg_replication_slots");
  const auto broken = error_of([&] {
    for (;;) reader->next(Deadline::after(Milliseconds(1000)));
  });
  EXPECT_EQ(broken.kind(), ErrorKind::failed);
  EXPECT_EQ(broken.action(), Action::retry);

  ASSERT_TRUE(cluster().wait_until("select active from pg_replication_slots", "f"));
  exec("drop publication pgbaton");
  const auto unpublished = error_of([&] { read("pgbaton", start_lsn); });
  EXPECT_EQ(unpublished.kind(), ErrorKind::boundary_lost);
  EXPECT_THAT(unpublished.message(), HasSubstr("publication \"pgbaton\" does not exist"));
}

// S05: a change between the slot and its publication. Up to 17 it fails for ever, on 18 it is left out without an
// error.
TEST_P(ReaderTest, S05_PublicationMissingInTheWalIsNoGapWithoutAnError) {
  exec("insert into t (pad) values ('streamed')");
  exec("drop publication pgbaton");
  exec("insert into t (pad) values ('unpublished')");
  publish({"t"});
  exec("alter role postgres set client_min_messages = error");
  const auto reader = read("pgbaton", start_lsn);
  const Lsn barrier_lsn = source::emit_barrier(control());
  const auto error = error_of([&] { read_until(*reader, barrier_lsn, Milliseconds(5000)); });
  EXPECT_EQ(error.kind(), ErrorKind::boundary_lost);
  EXPECT_THAT(error.message(), HasSubstr("publication \"pgbaton\""));
  EXPECT_FALSE(error.hint().empty());
}

TEST_P(ReaderTest, ServerShutdownIsAReasonToRetry) {
  const auto reader = read("pgbaton", start_lsn);
  cluster().restart(StopMode::immediate);
  const auto broken = error_of([&] {
    for (;;) reader->next(Deadline::after(Milliseconds(1000)));
  });
  EXPECT_EQ(broken.action(), Action::retry);
}

INSTANTIATE_TEST_SUITE_P(Majors, ReaderTest, ::testing::Values(12, 15, 18), ::testing::PrintToStringParamName());

class ShortTimeoutTest : public ReaderTest {
 protected:
  std::vector<std::pair<std::string, std::string>> settings() const override { return {{"wal_sender_timeout", "1s"}}; }
};

// S18: the source is answered in time while the reader's owner reads nothing, or nothing is there to read.
TEST_P(ShortTimeoutTest, S18_StatusIsSentInTime) {
  exec("insert into t (pad) select repeat('x', 500) from generate_series(1, 50000)");
  const auto reader = read("pgbaton", start_lsn);
  for (int i = 0; i < 35; ++i) {
    reader->keep_alive();
    std::this_thread::sleep_for(Milliseconds(100));
  }
  const auto streamed = read_until(*reader, source::emit_barrier(control()));
  EXPECT_EQ(streamed.ids().size(), 50'000u);
  const auto deadline = Deadline::after(Milliseconds(3500));
  while (!deadline.passed()) reader->next(deadline);
  EXPECT_EQ(cluster().log().find("terminating walsender process due to replication timeout"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Majors, ShortTimeoutTest, ::testing::Values(12, 18), ::testing::PrintToStringParamName());

// Measures, so it is not part of a test run: pg_tests --gtest_also_run_disabled_tests
// --gtest_filter='*ReaderBenchmark*', with PGBATON_BENCH_ROWS (default 1000000). The walsender alone, to nowhere,
// against pg_recvlogical.
class ReaderBenchmark : public ReaderTest {};

TEST_P(ReaderBenchmark, DISABLED_WalsenderAloneAgainstPgRecvlogical) {
  const char* given = std::getenv("PGBATON_BENCH_ROWS");
  const std::string rows = given ? given : "1000000";
  exec("do $$ begin for i in 1.." + std::to_string(std::stoll(rows) / 10) +
       " loop insert into t (pad) select repeat('x', 50) from generate_series(1, 10); commit; end loop; end $$");
  exec("select pg_copy_logical_replication_slot('pgbaton', 'other')");
  const Lsn end_lsn = source::emit_barrier(control());
  const auto seconds = [](auto&& work) {
    const auto started = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - started).count();
  };
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const double ours = seconds([&] {
    const auto reader = read("pgbaton", start_lsn);
    for (Lsn lsn; lsn < end_lsn;) {
      const auto event = reader->next(Deadline::after(Milliseconds(1000)));
      if (const auto* frame = std::get_if<source::Frame>(&event)) lsn = frame->message_lsn;
      if (const auto* position = std::get_if<source::Position>(&event)) lsn = position->lsn;
      if (std::holds_alternative<source::Idle>(event)) reader->request_position();
    }
  });
  getrusage(RUSAGE_SELF, &after);
  const auto cpu = [](const rusage& u) {
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
  };
  const double theirs = seconds([&] {
    run_checked({.arguments = {Cluster::bin_directory(15) + "/pg_recvlogical", "-d", cluster().conninfo(), "--slot",
                               "other", "--start", "-o", "proto_version=1", "-o", "publication_names=pgbaton",
                               "--endpos", to_string(end_lsn), "-f", "/dev/null"}},
                Milliseconds(100'000));
  });
  std::cerr << rows << " rows: " << ours << " s (CPU " << cpu(after) - cpu(before) << " s), pg_recvlogical " << theirs
            << " s\n";
}

INSTANTIATE_TEST_SUITE_P(Majors, ReaderBenchmark, ::testing::Values(15), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pgbaton::testing
