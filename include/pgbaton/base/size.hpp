// Sizes on the command line: "256MB", powers of 1024, units B, kB, MB, GB, TB as in postgresql.conf.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace pgbaton {

// Throws Error(usage) that names `what`. A bare number is bytes.
std::uint64_t parse_size(std::string_view text, std::string_view what);
std::string format_size(std::uint64_t bytes);  // "712 MB"

}  // namespace pgbaton
