#include <pgbaton/base/histogram.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace pgbaton {
namespace {

using ::testing::ElementsAre;

TEST(HistogramTest, CountsByInclusiveUpperBounds) {
  static constexpr std::array kBounds = {1.0, 10.0};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 10.0, 11.0}) histogram.add(value);
  const auto counts = histogram.counts();
  EXPECT_THAT(counts.bounds, ElementsAre(1.0, 10.0));
  EXPECT_THAT(counts.at_or_below, ElementsAre(2, 4));
  EXPECT_EQ(counts.total, 5);
  EXPECT_DOUBLE_EQ(counts.sum, 24.0);
}

TEST(HistogramTest, LosesNothingAmongThreads) {
  Histogram histogram(kSecondsBounds);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int n = 0; n < 10'000; ++n) histogram.add(0.5);
      });
  }
  EXPECT_EQ(histogram.counts().total, 40'000);
  EXPECT_DOUBLE_EQ(histogram.counts().sum, 20'000);
}

static_assert(kSecondsBounds.size() <= Histogram::kMostBounds && kCountBounds.size() <= Histogram::kMostBounds);

}  // namespace
}  // namespace pgbaton
