#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../../src/stream/apply_loop.hpp"
#include "../../../src/stream/stream_report.hpp"

namespace pgbaton::stream {
namespace {

StreamStatus at(std::uint64_t applied, std::uint64_t flush, std::int64_t changes) {
  StreamStatus status;
  status.applied_lsn = Lsn{applied};
  status.source_flush_lsn = Lsn{flush};
  status.changes = changes;
  status.transactions = changes / 2;
  return status;
}

TEST(StreamReport, RatesAreThoseOfTheLastSeconds) {
  StreamReport report;
  const Clock::time_point start{};
  const auto first = report.update(at(1000, 3000, 0), start);
  EXPECT_EQ(first.at("source_flush"), to_string(Lsn{3000}));
  EXPECT_FALSE(first.contains("changes_per_second")) << "one look knows no rate";
  const auto second = report.update(at(2000, 3500, 40), start + std::chrono::seconds(2));
  EXPECT_EQ(second.at("changes_per_second"), "20.0");
  EXPECT_EQ(second.at("transactions_per_second"), "10.0");
  EXPECT_EQ(second.at("applied_bytes_per_second"), "500.0");
  EXPECT_EQ(second.at("source_bytes_per_second"), "250.0");
  // What was long ago counts no more.
  for (int second_of = 3; second_of <= 40; ++second_of)
    report.update(at(2000, 3500, 40), start + std::chrono::seconds(second_of));
  const auto idle = report.update(at(2000, 3500, 40), start + std::chrono::seconds(41));
  EXPECT_EQ(idle.at("changes_per_second"), "0.0");
  // A source that went on as another one with smaller positions is no negative rate.
  const auto back = report.update(at(100, 100, 40), start + std::chrono::seconds(42));
  EXPECT_EQ(back.at("applied_bytes_per_second"), "0.0");
}

TEST(StreamReport, TheSourceIsNeverBehindWhatWasReceived) {
  Positions positions;
  positions.received = 300;
  EXPECT_FALSE(read_status(positions).source_flush_lsn) << "not asked yet";
  positions.source_flush = 200;
  EXPECT_EQ(read_status(positions).source_flush_lsn, Lsn{300});
}

TEST(StreamReport, LagIsTheAgeOfTheLastCommitAndNeverMoreThanItIsBehind) {
  Positions positions;
  positions.applied = 100;
  positions.source_flush = 100;
  EXPECT_EQ(read_status(positions).lag_seconds, 0);
  positions.source_flush = 200;
  positions.level_at = Clock::now() - std::chrono::seconds(5);
  EXPECT_NEAR(read_status(positions).lag_seconds, 5, 1) << "a stream that stands still before its first transaction";
  positions.last_commit_time = 1;  // in the year 2000
  EXPECT_NEAR(read_status(positions).lag_seconds, 5, 1) << "the source was idle before";
  positions.level_at = Clock::now() - std::chrono::hours(300'000);
  EXPECT_NEAR(read_status(positions).lag_seconds, seconds_since(1), 1);
}

}  // namespace
}  // namespace pgbaton::stream
