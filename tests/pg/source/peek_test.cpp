// The reader that peeks, and the one that chooses, against real servers.
#include <pgbaton/source/open_reader.hpp>

#include "source_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class PeekTest : public SourceTest {
 protected:
  std::vector<std::pair<std::string, std::string>> settings() const override {
    return {{"max_replication_slots", "4"}};
  }
  void SetUp() override {
    SourceTest::SetUp();
    exec("create table t (id bigint generated always as identity primary key, pad text)");
    publish({"t"});
    start_lsn = take("pgbaton").consistent_point();
  }
  std::unique_ptr<source::ChangeReader> peek(Lsn from_lsn, source::ReaderMode mode = source::ReaderMode::peek) {
    source::ReaderOptions options;
    options.mode = mode;
    options.slot = "pgbaton";
    options.publications = {"pgbaton"};
    options.start_lsn = from_lsn;
    options.once_held = [this](Lsn) { ++held; };
    return source::open_reader(endpoint, options);
  }
  Lsn confirmed() { return source::load_slot(control(), "pgbaton")->confirmed_flush_lsn; }
  bool read_slot_there() { return source::load_slot(control(), "pgbaton__read").has_value(); }
  // Every message until the position, as it came, without the positions of messages.
  std::vector<std::string> messages(source::ChangeReader& reader, Lsn until_lsn) {
    std::vector<std::string> all;
    const auto deadline = Deadline::after(Milliseconds(20'000));
    for (Lsn position_lsn; position_lsn < until_lsn;) {
      if (deadline.passed()) throw std::runtime_error("the position is not reached");
      const auto event = reader.next(Deadline::after(Milliseconds(20)));
      if (const auto* frame = std::get_if<source::Frame>(&event)) {
        all.emplace_back(reinterpret_cast<const char*>(frame->body.data()), frame->body.size());
      } else if (const auto* position = std::get_if<source::Position>(&event)) {
        position_lsn = position->lsn;
      } else {
        reader.request_position();
      }
    }
    return all;
  }
  Lsn start_lsn;
  int held = 0;
};

TEST_P(PeekTest, YieldsTheBytesOfTheWalsenderAndMovesTheSlotByConfirmAlone) {
  exec("insert into t (pad) select repeat('x', 10) from generate_series(1, 100)");
  exec("begin; update t set pad = 'ü' where id < 10; delete from t where id > 90; truncate t; commit");
  exec("insert into t (pad) values (null)");
  const Lsn until_lsn = source::emit_barrier(control());
  const auto streamed = messages(*read("pgbaton", start_lsn), until_lsn);
  EXPECT_GT(streamed.size(), 110u);
  {
    const auto reader = peek(start_lsn);
    EXPECT_EQ(held, 1);
    EXPECT_EQ(messages(*reader, until_lsn), streamed);
    EXPECT_TRUE(read_slot_there());
    exec("insert into t (pad) values ('next')");
    EXPECT_EQ(read_until(*reader, source::emit_barrier(control())).ids().size(), 1u) << "and no transaction twice";
    EXPECT_FALSE(source::load_slot(control(), "pgbaton")->active);
  }
  EXPECT_EQ(confirmed(), start_lsn);
  EXPECT_FALSE(read_slot_there());
  {
    const auto reader = peek(start_lsn);
    const auto again = read_until(*reader, until_lsn);
    EXPECT_TRUE(again.in_order);
    reader->confirm(again.last_end_lsn);
    reader->confirm(start_lsn);
    start_lsn = again.last_end_lsn;
  }
  EXPECT_EQ(confirmed(), start_lsn) << "what is confirmed is told before the end, and never taken back";
  exec("insert into t (pad) values ('new')");
  const auto reader = peek(start_lsn);
  EXPECT_EQ(read_until(*reader, source::emit_barrier(control())).ids().size(), 2u) << "next and new";
}

// S60, and the beginning of a next record at a page's border.
TEST_P(PeekTest, S60_IdleSourceReportsItsFlushPosition) {
  const auto reader = peek(start_lsn);
  for (int i = 0; i < 3; ++i) {
    exec("select pg_switch_wal()");
    const Lsn flush_lsn = require_lsn(cluster().scalar("select pg_current_wal_flush_lsn()"), "LSN");
    const auto streamed = read_until(*reader, flush_lsn, Milliseconds(5000));
    EXPECT_TRUE(streamed.ids().empty());
    exec("create table unpublished" + std::to_string(i) + " (a int)");
    exec("insert into t (pad) values ('x')");
    EXPECT_EQ(read_until(*reader, source::emit_barrier(control()), Milliseconds(5000)).ids().size(), 1u);
  }
}

TEST_P(PeekTest, StopEndsALongStep) {
  exec("insert into t (pad) select repeat('x', 100) from generate_series(1, 150000)");
  auto reader = peek(start_lsn);
  ASSERT_TRUE(std::holds_alternative<source::Idle>(reader->next(Deadline::after(Milliseconds(50)))));
  std::jthread later([&] {
    std::this_thread::sleep_for(Milliseconds(100));
    reader->stop();
  });
  source::ReadEvent event = source::Idle{};
  while (!std::holds_alternative<source::Stopped>(event)) event = reader->next(Deadline::after(Milliseconds(20'000)));
  const auto started = Clock::now();
  later.join();
  reader.reset();
  EXPECT_LT(Clock::now() - started, std::chrono::seconds(5));
  EXPECT_TRUE(cluster().wait_until("select count(*) from pg_replication_slots", "1", Milliseconds(5000)));
}

TEST_P(PeekTest, ASlotOfTheNameThatIsNotOursIsRefusedAndOneLeftBehindIsEnded) {
  exec("select pg_create_logical_replication_slot('pgbaton__read', 'pgoutput')");
  const auto error = error_of([&] { peek(start_lsn); });
  EXPECT_EQ(error.kind(), ErrorKind::preflight);
  EXPECT_THAT(error.message(), HasSubstr("\"pgbaton__read\" exists"));
  EXPECT_THAT(error.hint(), HasSubstr("pg_drop_replication_slot"));
  EXPECT_TRUE(read_slot_there());
  exec("select pg_drop_replication_slot('pgbaton__read')");
  Session stranger(cluster().conninfo());
  stranger.exec("select pg_create_logical_replication_slot('pgbaton__read', 'pgoutput', true)");
  EXPECT_EQ(error_of([&] { peek(start_lsn); }).kind(), ErrorKind::preflight);
  stranger.exec("select pg_drop_replication_slot('pgbaton__read')");

  Session left(cluster().conninfo());
  left.exec("set application_name = 'pgbaton/test/read'");
  left.exec("select pg_create_logical_replication_slot('pgbaton__read', 'pgoutput', true)");
  exec("insert into t (pad) values ('x')");
  EXPECT_EQ(read_until(*peek(start_lsn), source::emit_barrier(control())).ids().size(), 1u);
  EXPECT_THROW(left.exec("select 1"), SqlError);
}

// No slot to spare, no room for the rows, a cancelled statement, a right that is missing: the walsender needs none of
// it.
TEST_P(PeekTest, WhatStandsAgainstPeekingIsRefusedWithoutHarm) {
  for (int i = 0; i < 3; ++i) exec("select pg_create_physical_replication_slot('p" + std::to_string(i) + "')");
  EXPECT_EQ(error_of([&] { peek(start_lsn); }).sqlstate(), "53400");
  for (int i = 0; i < 3; ++i) exec("select pg_drop_replication_slot('p" + std::to_string(i) + "')");
  exec("insert into t (pad) select repeat('x', 100) from generate_series(1, 60000)");
  exec("alter system set temp_file_limit = '64kB'");
  exec("select pg_reload_conf()");
  ASSERT_TRUE(cluster().wait_until("show temp_file_limit", "64kB"));
  EXPECT_EQ(error_of([&] { read_until(*peek(start_lsn), source::emit_barrier(control())); }).sqlstate(), "53400");
  exec("alter system reset temp_file_limit");
  exec("select pg_reload_conf()");
  ASSERT_TRUE(cluster().wait_until("show temp_file_limit", "-1"));
  EXPECT_EQ(read_until(*peek(start_lsn), source::emit_barrier(control())).ids().size(), 60000u);
}

TEST_P(PeekTest, AMissingSlotOrPublicationIsTheEndOfTheHistory) {
  exec("drop publication pgbaton");
  exec("insert into t (pad) values ('x')");
  auto error = error_of([&] { read_until(*peek(start_lsn), source::emit_barrier(control())); });
  EXPECT_EQ(error.kind(), ErrorKind::boundary_lost) << error.describe();
  EXPECT_THAT(error.message(), HasSubstr("publication"));
  source::drop_slot(control(), "pgbaton", true);
  error = error_of([&] { peek(start_lsn); });
  EXPECT_EQ(error.kind(), ErrorKind::boundary_lost) << error.describe();
}

INSTANTIATE_TEST_SUITE_P(Majors, PeekTest, ::testing::Values(12, 15, 18), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pgbaton::testing
