#include "screen.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace pgbaton::app {

namespace {

constexpr std::string_view kErase = "\r\x1b[J";  // to the end of the screen

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A terminal that has gone away must not end a replica: errors are ignored.
void write_all(std::string_view text) {
  while (!text.empty()) {
    auto written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string block_of(const std::vector<std::string>& lines, std::size_t rows) {
  auto count = std::min(lines.size(), rows);
  if (count == 0) return std::string(kErase);
  std::string text = "\r\x1b[?7l";
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : "\x1b[K\r\n") + lines[i];
  text += "\x1b[J\x1b[?7h\r";
  if (count > 1) text += fmt::format("\x1b[{}A", count - 1);
  return text;
}

}  // namespace

bool Screen::available() {
  auto term = environment("TERM");
  return ::isatty(STDERR_FILENO) == 1 && !term.empty() && term != "dumb";
}

bool Screen::shows_utf8() {
  std::string_view locale = environment("LC_ALL");
  if (locale.empty()) locale = environment("LC_CTYPE");
  if (locale.empty()) locale = environment("LANG");
  return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
}

ScreenSize Screen::size() {
  winsize window{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) return {};
  return {window.ws_col, window.ws_row};
}

Screen::Screen() {
  log::redirect([this](std::string_view text) { write_above(text); });
}

Screen::~Screen() {
  log::redirect({});
  write_all(kErase);
}

void Screen::draw(const std::vector<std::string>& lines) {
  std::lock_guard lock(mutex_);
  block_ = block_of(lines, static_cast<std::size_t>(std::max(size().rows - 1, 1)));
  write_all(block_);
}

void Screen::write_above(std::string_view text) {
  std::lock_guard lock(mutex_);
  write_all(fmt::format("{}{}{}", kErase, text, block_));
}

}  // namespace pgbaton::app
