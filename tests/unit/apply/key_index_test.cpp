#include "../../../src/apply/key_index.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace pgbaton::apply {
namespace {

TEST(KeyIndex, NumbersKeysInTheOrderOfTheirArrival) {
  KeyIndex index;
  EXPECT_FALSE(index.find(""));
  std::deque<std::string> keys;
  for (int i = 0; i < 5000; ++i) {
    const auto& key = keys.emplace_back(i == 0 ? "" : std::to_string(i * 7919));
    ASSERT_FALSE(index.find(key));
    index.add(key);
    ASSERT_EQ(index.find(key), static_cast<std::size_t>(i));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(index.find(keys[i]), i);
  EXPECT_FALSE(index.find("no such key"));
  EXPECT_FALSE(index.find(std::string_view("7919", 3)));
}

}  // namespace
}  // namespace pgbaton::apply
