// What /metrics says when nobody knows: nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../../src/app/monitor_render.hpp"

namespace pgbaton::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A replica that follows, and a stream of this process.
Seen following() {
  auto report = std::make_shared<StatusReport>();
  report->replica.emplace();
  report->replica->phase = state::Phase::ready;
  report->progress.applied_lsn = Lsn{900};
  report->source_flush_lsn = Lsn{1000};
  report->slot.emplace();
  report->slot->wal_status = "reserved";
  Seen seen;
  seen.now = seen.report_at = 1'000'000;
  seen.report = report;
  seen.status_json = std::make_shared<std::string>("{\n  \"name\": \"default\"\n}");
  LiveStream stream;
  stream.running = stream.status.connected = true;
  stream.status.source_flush_lsn = Lsn{1000};
  stream.status.applied_lsn = Lsn{950};
  seen.stream = stream;
  return seen;
}

TEST(MetricsTest, TellALagWhileConnected) {
  EXPECT_THAT(metrics_text(following()),
              AllOf(HasSubstr("pgbaton_lag_bytes{replica=\"\"} 50\n"), HasSubstr("position=\"source_flush\"} 1000\n"),
                    HasSubstr("pgbaton_rate_source_bytes"), HasSubstr("pgbaton_target_up{replica=\"\"} 1\n")));
}

TEST(MetricsTest, WithoutAConnectionSayNothingOfWhatTheSourceWrites) {
  auto seen = following();
  seen.stream->status.connected = false;
  auto report = *seen.report;
  report.source_problem = "connection refused";
  report.slot.reset();
  report.source_flush_lsn = Lsn{};
  seen.report = std::make_shared<StatusReport>(report);
  EXPECT_THAT(
      metrics_text(seen),
      AllOf(Not(HasSubstr("pgbaton_lag")), Not(HasSubstr("source_flush\"")), Not(HasSubstr("pgbaton_rate_source")),
            Not(HasSubstr("pgbaton_slot")), HasSubstr("position=\"applied\"} 950\n"),
            HasSubstr("pgbaton_stream_connected{replica=\"\"} 0\n"), HasSubstr("phase=\"ready\"} 1\n")));
}

// A server that takes the connection and never answers leaves the last look as it was.
TEST(MetricsTest, ALookThatIsOverdueTellsNothing) {
  auto seen = following();
  seen.now += 31;
  EXPECT_TRUE(seen.overdue());
  for (const bool failed : {false, true}) {
    seen.status_failed = failed;
    EXPECT_THAT(metrics_text(seen), AllOf(HasSubstr("pgbaton_target_up{replica=\"\"} 0\n"),
                                          Not(HasSubstr("pgbaton_replica_phase")), Not(HasSubstr("pgbaton_slot")),
                                          Not(HasSubstr("pgbaton_source_up")), HasSubstr("pgbaton_lag_bytes")));
    EXPECT_EQ(seen.fresh(), nullptr);
  }
  EXPECT_THAT(status_document(seen), HasSubstr("no server has answered for 31 s"));
  seen.look_seconds = 5;  // looks that take long come rarely
  EXPECT_FALSE(seen.overdue());
}

TEST(MetricsTest, ALookFromBeforeTheEndOfTheCopySaysNothingOfIt) {
  auto seen = following();
  auto report = *seen.report;
  report.replica->phase = state::Phase::copying;
  report.tables.emplace_back();
  report.tables.back().bytes_total = 5000;
  seen.report = std::make_shared<StatusReport>(report);
  EXPECT_THAT(metrics_text(seen), HasSubstr("pgbaton_copy_left_bytes{replica=\"\"} 5000\n"));
  seen.copy.emplace();
  EXPECT_THAT(metrics_text(seen), AllOf(Not(HasSubstr("pgbaton_copy_left")), HasSubstr("pgbaton_copy_rows_total")));
  seen.copy->running = true;
  seen.copy->bytes_total = 700;
  EXPECT_THAT(metrics_text(seen), HasSubstr("pgbaton_copy_left_bytes{replica=\"\"} 700\n"));
}

TEST(MetricsTest, AStreamThatHasEndedIsNotOneWithoutConnection) {
  auto seen = following();
  seen.stream->running = false;
  EXPECT_THAT(metrics_text(seen),
              AllOf(Not(HasSubstr("pgbaton_stream_connected")), Not(HasSubstr("pgbaton_queue_bytes")),
                    HasSubstr("pgbaton_stream_changes_total")));
}

TEST(MetricsTest, ASlotThatIsGoneIsMissingUnlessTheReplicaWasSwitchedOver) {
  auto seen = following();
  auto report = *seen.report;
  report.slot.reset();
  seen.report = std::make_shared<StatusReport>(report);
  EXPECT_THAT(metrics_text(seen), HasSubstr("status=\"missing\"} 1\n"));
  report.replica->direction = "switched";
  seen.report = std::make_shared<StatusReport>(report);
  EXPECT_THAT(metrics_text(seen), Not(HasSubstr("pgbaton_slot")));
}

TEST(MetricsTest, StepsOfACourseStandInStatusToo) {
  auto seen = following();
  seen.command = "rebuild";
  Course course;
  course.begin("catch-up");
  course.begin("copy");
  course.begin("catch-up");
  course.know("generation", "3");
  seen.course = LiveCourse{true, course.look()};
  const auto text = metrics_text(seen);
  EXPECT_THAT(text, AllOf(HasSubstr("pgbaton_step_running{replica=\"\",step=\"catch-up\"} 1\n"),
                          HasSubstr("pgbaton_step_running{replica=\"\",step=\"copy\"} 0\n"),
                          HasSubstr("pgbaton_rebuild_generation{replica=\"\"} 3\n"), Not(HasSubstr("pgbaton_paus"))));
  EXPECT_THAT(status_document(seen), AllOf(HasSubstr("{\n  \"name\": \"default\",\n  \"course\": {\"running\":true"),
                                           HasSubstr("\"generation\":\"3\"")));
}

}  // namespace
}  // namespace pgbaton::app
