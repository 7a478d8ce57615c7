// Text that fits: display widths, bars, and lists of short texts packed into lines. Pure; knows no terminal.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::app {

struct Layout {
  int columns = 80;  // no line is wider
  int rows = 24;     // a block should not be higher
  bool utf8 = true;  // else ASCII only
};

// Columns that a text takes on a terminal. Never less than it really takes.
int display_width(std::string_view text);
// At most `columns` wide, the end cut off with "…"; control and foreign characters become "?".
std::string fit(std::string_view text, int columns, bool utf8);
// Also filled up with blanks to exactly `columns`.
std::string pad(std::string_view text, int columns, bool utf8);
std::string bar(double share, int columns, bool utf8);
std::string percent(double share);            // " 58 %", always 5 wide
std::string count_text(std::int64_t number);  // "1,234,567"
std::string size_text(std::int64_t bytes);    // negative is 0
std::string duration_text(double seconds);    // whole seconds

// Columns as wide as their widest cell, two blanks apart; `alignment` has an l or r for each. A row with a single cell
// is a line of its own.
std::string in_columns(const std::vector<std::vector<std::string>>& rows, std::string_view alignment);
// Lines that are wider than `columns` are broken at blanks and go on under where their text begins: behind a label and
// two blanks or more ("slot        pgbaton, …"), else behind their indentation.
std::string wrapped(std::string_view text, int columns);

// "copy    ████░░░  58 %  1.2 GB of 2.1 GB  ETA 12 s": as many parts as fit, the others on indented lines below.
std::vector<std::string> bar_lines(std::string_view label, double share, const std::vector<std::string>& parts,
                                   const Layout& layout);
// The same without a bar.
std::vector<std::string> part_lines(std::string_view label, const std::vector<std::string>& parts,
                                    const Layout& layout);

}  // namespace pgbaton::app
