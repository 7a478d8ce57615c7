#include <fmt/format.h>

#include <charconv>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/lsn.hpp>

namespace pgbaton {
namespace {

// One half of an LSN: 1 to 8 hex digits, nothing else.
std::optional<std::uint32_t> parse_half(std::string_view text) {
  if (text.empty() || text.size() > 8) return std::nullopt;
  std::uint32_t half = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), half, 16);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return half;
}

}  // namespace

std::string to_string(Lsn lsn) {
  return fmt::format("{:X}/{:X}", lsn.value >> 32, lsn.value & 0xFFFFFFFFu);
}

std::optional<Lsn> parse_lsn(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto high = parse_half(text.substr(0, slash));
  const auto low = parse_half(text.substr(slash + 1));
  if (!high || !low) return std::nullopt;
  return Lsn{std::uint64_t{*high} << 32 | *low};
}

Lsn require_lsn(std::string_view text, std::string_view what) {
  if (const auto lsn = parse_lsn(text)) return *lsn;
  throw Error(ErrorKind::usage, fmt::format("{}: \"{}\" is not an LSN", what, text))
      .hint("An LSN is two hexadecimal numbers with a slash, such as 16/B374D848.");
}

}  // namespace pgbaton
