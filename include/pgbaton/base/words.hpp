// Words for people: numbers with their nouns ("1 table", "1,234 rows"), and texts of others on one line.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace pgbaton {

// "1,234,567"
std::string grouped(std::int64_t number);
// `noun` is the singular; `plural` where an s at its end would not do.
std::string counted(std::int64_t number, std::string_view noun, std::string_view plural = "");

// For messages and notes: every stretch of white space is one blank.
std::string on_one_line(std::string_view text);

}  // namespace pgbaton
