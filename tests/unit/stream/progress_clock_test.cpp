#include "../../../src/stream/progress_clock.hpp"

#include <gtest/gtest.h>

namespace pgbaton::stream {
namespace {

constexpr auto kStart = Clock::time_point{} + std::chrono::hours(1);
constexpr auto at(int seconds) {
  return kStart + std::chrono::seconds(seconds);
}

TEST(ProgressClock, StrikesWhenNothingMoves) {
  ProgressClock clock(Milliseconds(3000), at(0));
  EXPECT_FALSE(clock.strikes(Lsn{5}, Lsn{5}, false, at(2)));
  EXPECT_FALSE(clock.strikes(Lsn{5}, Lsn{5}, false, at(4))) << "the first look was a move";
  EXPECT_TRUE(clock.strikes(Lsn{5}, Lsn{5}, false, at(5)));
}

TEST(ProgressClock, EveryKindOfProgressCounts) {
  ProgressClock clock(Milliseconds(3000), at(0));
  EXPECT_FALSE(clock.strikes(Lsn{5}, Lsn{5}, false, at(0)));
  EXPECT_FALSE(clock.strikes(Lsn{6}, Lsn{5}, false, at(10))) << "received";
  EXPECT_FALSE(clock.strikes(Lsn{6}, Lsn{6}, false, at(20))) << "applied";
  EXPECT_FALSE(clock.strikes(Lsn{6}, Lsn{6}, true, at(30))) << "busy";
  EXPECT_FALSE(clock.strikes(Lsn{6}, Lsn{6}, false, at(32)));
  EXPECT_TRUE(clock.strikes(Lsn{6}, Lsn{6}, false, at(33)));
}

TEST(ProgressClock, WithoutALimitItNeverStrikes) {
  ProgressClock clock(std::nullopt, at(0));
  EXPECT_FALSE(clock.strikes(Lsn{1}, Lsn{1}, false, at(0)));
  EXPECT_FALSE(clock.strikes(Lsn{1}, Lsn{1}, false, at(1'000'000)));
}

}  // namespace
}  // namespace pgbaton::stream
