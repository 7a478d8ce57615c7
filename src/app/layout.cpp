#include "layout.hpp"

#include <fmt/format.h>
#include <pgbaton/base/size.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/base/words.hpp>

#include <algorithm>
#include <cmath>

namespace pgbaton::app {

namespace {

constexpr int kLabel = 9;  // width of the labels at the left, and of the indent below them
constexpr int kLeastBar = 16, kMostBar = 48;
constexpr std::string_view kGap = "  ";

struct Glyph {
  std::string_view bytes;
  int width = 0;  // 0: not to be shown
};

// East Asian wide characters and emoji take two columns. Marks that combine count as one: too much never wraps.
int width_of(char32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 0;
  return (code >= 0x1100 && code < 0x1160) || code >= 0x2e80 ? 2 : 1;
}

// The first character of a text that is not empty; a byte that is no UTF-8 stands alone.
Glyph first_glyph(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {text.substr(0, 1), width_of(lead)};
  std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || text.size() < length) return {text.substr(0, 1), 0};
  char32_t code = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {text.substr(0, 1), 0};
    code = code << 6 | (next & 0x3f);
  }
  return {text.substr(0, length), width_of(code)};
}

// Only what can be shown, each character with its width.
std::string printable(std::string_view text, bool utf8) {
  std::string shown;
  while (!text.empty()) {
    auto glyph = first_glyph(text);
    shown += glyph.width == 0 || (glyph.bytes.size() > 1 && !utf8) ? std::string_view("?") : glyph.bytes;
    text.remove_prefix(glyph.bytes.size());
  }
  return shown;
}

std::vector<std::string> pack(std::string line, const std::vector<std::string>& parts, const Layout& layout) {
  std::vector<std::string> lines;
  bool empty = true;
  for (const auto& part : parts) {
    auto text = fit(part, layout.columns - kLabel, layout.utf8);
    if (!empty && display_width(line) + display_width(text) + 2 > layout.columns) {
      lines.push_back(std::move(line));
      line = std::string(kLabel, ' ');
      empty = true;
    }
    line += (empty ? "" : std::string(kGap)) + text;
    empty = false;
  }
  lines.push_back(std::move(line));
  return lines;
}

// Without what only colours it.
int shown_width(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto escape = std::min(text.find('\x1b'), text.size());
    plain += text.substr(0, escape);
    text.remove_prefix(escape);
    if (!text.empty()) text.remove_prefix(std::min(text.find('m'), text.size() - 1) + 1);
  }
  return display_width(plain);
}

std::size_t hanging_indent(std::string_view line) {
  constexpr std::size_t kLongestLabel = 14;
  const auto begin = std::min(line.find_first_not_of(' '), line.size());
  if (begin > 0) return begin;
  const auto gap = line.find(kGap);
  if (gap > kLongestLabel) return 0;
  return std::min(line.find_first_not_of(' ', gap), line.size());
}

std::string wrapped_line(std::string_view line, int columns) {
  const auto indent = std::min(hanging_indent(line), static_cast<std::size_t>(columns / 2));
  std::string result, current(line.substr(0, indent));
  bool empty = true;
  for (auto rest = line.substr(indent); !rest.empty();) {
    auto end = rest.find_first_not_of(' ');
    end = end == rest.npos ? rest.size() : std::min(rest.find(' ', end), rest.size());
    const auto word = rest.substr(0, end);
    if (!empty && shown_width(current) + shown_width(word) > columns) {
      result += current + "\n";
      current = std::string(indent, ' ').append(word.substr(std::min(word.find_first_not_of(' '), word.size())));
    } else {
      current += word;
    }
    empty = false;
    rest.remove_prefix(end);
  }
  return result + current + "\n";
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    auto glyph = first_glyph(text);
    width += glyph.width;
    text.remove_prefix(glyph.bytes.size());
  }
  return width;
}

std::string fit(std::string_view text, int columns, bool utf8) {
  auto shown = printable(text, utf8);
  if (display_width(shown) <= columns) return shown;
  std::string cut;
  int left = columns - (utf8 ? 1 : 3);
  for (std::string_view rest = shown; !rest.empty();) {
    auto glyph = first_glyph(rest);
    left -= glyph.width;
    if (left < 0) break;
    cut += glyph.bytes;
    rest.remove_prefix(glyph.bytes.size());
  }
  std::string_view mark = utf8 ? "…" : "...";
  return columns < 3 ? "" : cut.append(mark);
}

std::string pad(std::string_view text, int columns, bool utf8) {
  auto shown = fit(text, columns, utf8);
  shown.append(static_cast<std::size_t>(std::max(columns - display_width(shown), 0)), ' ');
  return shown;
}

std::string bar(double share, int columns, bool utf8) {
  int filled = std::clamp(static_cast<int>(std::lround(share * columns)), 0, columns);
  std::string text;
  for (int i = 0; i < columns; ++i) text += i < filled ? (utf8 ? "█" : "#") : (utf8 ? "░" : ".");
  return text;
}

// 100 % only when everything is done.
std::string percent(double share) {
  return fmt::format("{:>3.0f} %", std::floor(std::clamp(share, 0.0, 1.0) * 100));
}

std::string count_text(std::int64_t number) {
  return grouped(number);
}

std::string size_text(std::int64_t bytes) {
  return format_size(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

std::string duration_text(double seconds) {
  auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  return whole < 60 ? fmt::format("{} s", whole) : format_duration(Milliseconds(whole * 1000));
}

std::string in_columns(const std::vector<std::vector<std::string>>& rows, std::string_view alignment) {
  std::vector<int> widths(alignment.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; row.size() > 1 && i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line = row.size() == 1 ? row[0] : "";
    for (std::size_t i = 0; row.size() > 1 && i < row.size(); ++i) {
      const std::string blanks(static_cast<std::size_t>(widths[i] - display_width(row[i])), ' ');
      line += i == 0 ? "" : kGap;
      line += alignment[i] == 'r' ? blanks + row[i] : row[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrapped(std::string_view text, int columns) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    result += wrapped_line(text.substr(0, end), columns);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::vector<std::string> bar_lines(std::string_view label, double share, const std::vector<std::string>& parts,
                                   const Layout& layout) {
  // Bars below each other are equally long, whatever stands behind them.
  int width = std::clamp(layout.columns - 64, kLeastBar, kMostBar);
  width = std::min(width, std::max(layout.columns - kLabel - 7, 1));
  auto all = parts;
  all.insert(all.begin(), bar(share, width, layout.utf8) + " " + percent(share));
  return pack(pad(label, kLabel, layout.utf8), all, layout);
}

std::vector<std::string> part_lines(std::string_view label, const std::vector<std::string>& parts,
                                    const Layout& layout) {
  return pack(pad(label, kLabel, layout.utf8), parts, layout);
}

}  // namespace pgbaton::app
