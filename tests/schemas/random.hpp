// Chance that follows from a seed.
#pragma once
#include <cstdint>
#include <random>
#include <string>

namespace pgbaton::schemas {

using Random = std::mt19937_64;
inline int pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}
inline bool chance(Random& random, int percent) {
  return pick(random, 1, 100) <= percent;
}
template <typename List>
const auto& any_of(Random& random, const List& list) {
  return list[static_cast<std::size_t>(pick(random, 0, static_cast<int>(list.size()) - 1))];
}

}  // namespace pgbaton::schemas
