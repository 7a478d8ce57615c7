#include <gtest/gtest.h>

#include <pgbaton/base/arena.hpp>
#include <string>

namespace pgbaton {
namespace {

TEST(Arena, ViewsStayValidWhileItGrowsAndMoves) {
  Arena arena;
  std::vector<std::string_view> views;
  for (int i = 0; i < 10'000; ++i) views.push_back(arena.copy(std::to_string(i)));
  Arena moved(std::move(arena));
  Arena assigned;
  assigned.copy("old");
  assigned = std::move(moved);
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(views[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST(Arena, AMovedFromArenaIsEmptyAndUsable) {
  Arena arena;
  arena.copy(std::string(100'000, 'x'));
  const Arena taken(std::move(arena));
  EXPECT_EQ(arena.bytes(), 0u);  // NOLINT(bugprone-use-after-move): that is the promise
  EXPECT_EQ(arena.copy("again"), "again");
  EXPECT_GE(taken.bytes(), 100'000u);
}

TEST(Arena, AlignsAndCountsWholeBlocks) {
  Arena arena;
  EXPECT_EQ(arena.bytes(), 0u);
  arena.copy("abc");
  const auto small = arena.bytes();
  EXPECT_GT(small, 3u);
  EXPECT_LE(small, 1024u) << "a single-row transaction stays cheap";
  const auto numbers = arena.array<std::uint64_t>(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers.data()) % alignof(std::uint64_t), 0u);
  EXPECT_EQ(arena.bytes(), small);
  EXPECT_TRUE(arena.array<int>(0).empty());
  EXPECT_TRUE(arena.copy("").empty());
  arena.array<std::byte>(1'000'000);
  EXPECT_GE(arena.bytes(), 1'000'000u);
  EXPECT_EQ(arena.copy("after a large one"), "after a large one");
}

}  // namespace
}  // namespace pgbaton
