#include <gtest/gtest.h>

#include "../../../src/source/peek_steps.hpp"

namespace pgbaton::source {
namespace {

constexpr std::uint64_t kMb = 1u << 20, kGb = 1u << 30;
constexpr StepLimits kLimits;

Lsn at(std::uint64_t value) {
  return Lsn{10 * kGb + value};
}

TEST(PeekSteps, AStepIsAsLongAsWhatIsReadAgainWithinBounds) {
  EXPECT_EQ(step_end(kLimits, at(0), at(0), at(kGb), 0), at(64 * kMb));
  EXPECT_EQ(step_end(kLimits, at(0), at(100 * kMb), at(kGb), 0), at(200 * kMb));
  EXPECT_EQ(step_end(kLimits, at(0), at(400 * kMb), at(kGb), 0), at(656 * kMb));
  EXPECT_EQ(step_end(kLimits, at(kMb), at(0), at(kGb), 0), at(64 * kMb)) << "restart_lsn beyond the position";
}

TEST(PeekSteps, ARestThatIsNotWorthAStepGoesAlong) {
  EXPECT_EQ(step_end(kLimits, at(0), at(0), at(10), 0), at(10));
  EXPECT_EQ(step_end(kLimits, at(0), at(0), at(95 * kMb), 0), at(95 * kMb));
  EXPECT_EQ(step_end(kLimits, at(0), at(0), at(97 * kMb), 0), at(64 * kMb));
}

TEST(PeekSteps, AStepThatYieldsNothingGrows) {
  EXPECT_EQ(step_end(kLimits, at(0), at(64 * kMb), at(9 * kGb), 1), at(192 * kMb));
  EXPECT_EQ(step_end(kLimits, at(0), at(192 * kMb), at(9 * kGb), 2), at(960 * kMb));
  EXPECT_EQ(step_end(kLimits, at(0), at(kMb), at(9 * kGb), 90), at(kGb)) << "and never reads more than is in reach";
}

TEST(PeekSteps, WhatIsOutOfReachIsNotPeeked) {
  EXPECT_EQ(step_end(kLimits, at(0), at(900 * kMb), at(9 * kGb), 0), at(kGb));
  EXPECT_EQ(step_end(kLimits, at(0), at(1000 * kMb), at(9 * kGb), 0), std::nullopt);
  EXPECT_EQ(step_end(kLimits, at(0), at(1000 * kMb), at(1010 * kMb), 0), at(1010 * kMb)) << "the end is in reach";
  EXPECT_EQ(step_end(kLimits, at(0), at(2 * kGb), at(2 * kGb + 1), 0), std::nullopt);
}

}  // namespace
}  // namespace pgbaton::source
