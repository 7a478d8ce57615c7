#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/size.hpp>

namespace pgbaton {
namespace {

constexpr std::array<std::string_view, 5> kUnits{"B", "kB", "MB", "GB", "TB"};

bool same_unit(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

std::uint64_t parse_size(std::string_view text, std::string_view what) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.empty()) unit = kUnits[0];
  const auto found = std::ranges::find_if(kUnits, [&](auto known) { return same_unit(known, unit); });
  const auto shift = 10 * (found - kUnits.begin());
  if (problem != std::errc() || found == kUnits.end() || number > std::numeric_limits<std::uint64_t>::max() >> shift) {
    throw Error(ErrorKind::usage, fmt::format("{}: \"{}\" is not a size", what, text))
        .hint("Write a whole number with a unit: B, kB, MB, GB or TB, such as 256MB; a bare number is bytes.");
  }
  return number << shift;
}

std::string format_size(std::uint64_t bytes) {
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 would be rounded to "1024 kB".
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0 || value >= 9.95) return fmt::format("{:.0f} {}", value, kUnits[unit]);
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace pgbaton
