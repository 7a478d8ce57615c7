// "Within 2 s" of the scenarios. A sanitized build is several times slower and proves other things.
#pragma once
#include <chrono>

namespace pgbaton::testing {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::milliseconds kPromptly{15'000};
#else
inline constexpr std::chrono::milliseconds kPromptly{2'000};
#endif
}  // namespace pgbaton::testing
