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

// Arrays of every size and alignment, written after all were given out: none may touch another.
TEST(Arena, ArraysDoNotOverlap) {
  Arena arena;
  std::vector<std::span<std::uint16_t>> small;
  std::vector<std::span<std::uint64_t>> large;
  for (std::size_t i = 1; i < 300; ++i) {
    arena.copy("x");  // throws the alignment off
    small.push_back(arena.array<std::uint16_t>(i % 7 + 1));
    large.push_back(arena.array<std::uint64_t>(i * i % 5'000 + 1));
  }
  for (std::size_t i = 0; i < small.size(); ++i) {
    std::fill(small[i].begin(), small[i].end(), static_cast<std::uint16_t>(i));
    std::fill(large[i].begin(), large[i].end(), i);
  }
  std::size_t held_bytes = 0;
  for (std::size_t i = 0; i < small.size(); ++i) {
    for (const auto number : small[i]) ASSERT_EQ(number, i);
    for (const auto number : large[i]) ASSERT_EQ(number, i);
    held_bytes += small[i].size_bytes() + large[i].size_bytes();
  }
  EXPECT_GE(arena.bytes(), held_bytes);
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
