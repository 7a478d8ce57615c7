#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/queue.hpp>
#include <thread>
#include <vector>

namespace pgbaton {
namespace {

using namespace std::chrono_literals;

TEST(Queue, KeepsTheOrderAndCountsBytes) {
  BoundedQueue<int> queue(100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push_for(i, 10, 0ms));
  EXPECT_EQ(queue.bytes(), 30u);
  EXPECT_FALSE(queue.empty());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop_for(0ms), i);
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_EQ(queue.pop_for(1ms), std::nullopt);
  EXPECT_FALSE(queue.closed());
}

TEST(Queue, AFullQueueLeavesTheItemUntouched) {
  BoundedQueue<std::unique_ptr<int>> queue(10);
  auto first = std::make_unique<int>(1), second = std::make_unique<int>(2);
  EXPECT_TRUE(queue.push_for(first, 10, 0ms));
  EXPECT_FALSE(queue.push_for(second, 1, 5ms));
  ASSERT_TRUE(second);
  EXPECT_EQ(**queue.pop_for(0ms), 1);
  EXPECT_TRUE(queue.push_for(second, 1, 0ms));
}

TEST(Queue, AnElementLargerThanTheBoundPassesAlone) {
  BoundedQueue<int> queue(10);
  int item = 1;
  EXPECT_TRUE(queue.push_for(item, 1000, 0ms));
  EXPECT_FALSE(queue.push_for(item, 1, 1ms));
  EXPECT_EQ(queue.pop_for(0ms), 1);
  EXPECT_TRUE(queue.push_for(item, 1, 0ms));
}

TEST(Queue, CloseHandsOutTheRestThenEnds) {
  BoundedQueue<int> queue(10);
  int item = 1;
  queue.push_for(item, 1, 0ms);
  queue.close();
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.push_for(item, 1, 0ms));
  EXPECT_EQ(queue.pop_for(0ms), 1);
  EXPECT_EQ(queue.pop_for(60s), std::nullopt) << "at once";
}

TEST(Queue, TheClosingErrorReachesBothSides) {
  BoundedQueue<int> queue(10);
  int item = 1;
  queue.push_for(item, 1, 0ms);
  queue.close(std::make_exception_ptr(Error(ErrorKind::boundary_lost, "slot gone")));
  queue.close();  // the first one counts
  EXPECT_THROW(queue.push_for(item, 1, 0ms), Error);
  EXPECT_EQ(queue.pop_for(0ms), 1);
  EXPECT_THROW(queue.pop_for(0ms), Error);
}

TEST(Queue, CloseWakesWaitersOnBothSides) {
  BoundedQueue<int> full(1), empty(1);
  int item = 1;
  full.push_for(item, 1, 0ms);
  bool pushed = true;
  std::optional<int> popped = 7;
  std::jthread pusher([&] { pushed = full.push_for(item, 1, 60s); });
  std::jthread popper([&] { popped = empty.pop_for(60s); });
  std::this_thread::sleep_for(10ms);
  full.close();
  empty.close();
  pusher.join();
  popper.join();
  EXPECT_FALSE(pushed);
  EXPECT_EQ(popped, std::nullopt);
}

// Whatever push_for() said it took is handed out, also when the end comes in the middle of a run.
TEST(Queue, AnErrorInTheMiddleLosesNothingThatWasTaken) {
  for (int round = 0; round < 50; ++round) {
    BoundedQueue<int> queue(16);
    int taken = 0, handed_out = 0;
    std::jthread producer([&] {
      try {
        while (queue.push_for(taken, 8, 60s)) ++taken;
      } catch (const Error&) {
      }
    });
    std::jthread closer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
      queue.close(std::make_exception_ptr(Error(ErrorKind::failed, "target gone")));
    });
    EXPECT_THROW(
        while (true) {
          const auto item = queue.pop_for(60s);
          ASSERT_TRUE(item);
          ASSERT_EQ(*item, handed_out++);
        },
        Error);
    producer.join();
    EXPECT_EQ(handed_out, taken);
  }
}

TEST(Queue, ManyElementsThroughASmallQueue) {
  constexpr long kCount = 100'000;
  BoundedQueue<long> queue(64);
  std::jthread producer([&] {
    for (long i = 0; i < kCount; ++i) {
      while (!queue.push_for(i, 8, 100ms)) {
      }
    }
    queue.close();
  });
  long expected = 0;
  while (true) {
    const auto item = queue.pop_for(1s);
    if (!item) break;
    ASSERT_EQ(*item, expected++);
    ASSERT_LE(queue.bytes(), 72u);
  }
  EXPECT_EQ(expected, kCount);
}

}  // namespace
}  // namespace pgbaton
