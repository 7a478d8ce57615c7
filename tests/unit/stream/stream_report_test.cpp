#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace pgbaton::stream
