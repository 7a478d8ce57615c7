// Keys of our advisory locks on the target, from a text: FNV-1a, 64 bits, as the signed number that PostgreSQL takes.
#pragma once
#include <cstdint>
#include <string_view>

namespace pgbaton::state {

constexpr std::int64_t lock_key(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<std::int64_t>(hash);
}

}  // namespace pgbaton::state
