#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include <algorithm>

namespace pgbaton {

std::string grouped(std::int64_t number) {
  auto digits = std::to_string(number);
  for (auto at = static_cast<int>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string counted(std::int64_t number, std::string_view noun, std::string_view plural) {
  if (number == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", grouped(number), noun) : fmt::format("{} {}", grouped(number), plural);
}

std::string on_one_line(std::string_view text) {
  constexpr std::string_view kWhite = " \n\r\t\v\f";
  std::string line;
  for (auto at = text.find_first_not_of(kWhite); at != text.npos; at = text.find_first_not_of(kWhite, at)) {
    const auto end = std::min(text.find_first_of(kWhite, at), text.size());
    line += (line.empty() ? "" : " ") + std::string(text.substr(at, end - at));
    at = end;
  }
  return line;
}

}  // namespace pgbaton
