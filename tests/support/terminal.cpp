#include "terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace pgbaton::testing {
namespace {

bool is_wide(const std::string& character) {  // from U+2E80 on
  return character.size() > 2 && character >= "\xe2\xba\x80";
}

std::string text_of(const std::vector<std::string>& cells) {
  std::string text;
  for (const auto& cell : cells) text += cell;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

Terminal::Terminal(int columns, int rows) : columns_(columns), rows_(rows) {
  char name[128] = {};
  winsize window{static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
  if (openpty(&master_, &slave_, name, nullptr, &window) != 0) throw std::runtime_error("no pseudo-terminal");
  fcntl(master_, F_SETFD, FD_CLOEXEC);
  fcntl(slave_, F_SETFD, FD_CLOEXEC);
  device_ = name;
  reader_ = std::thread([this] { read(); });
}

Terminal::~Terminal() {
  stop_ = true;
  reader_.join();
  close(slave_);
  close(master_);
}

std::vector<std::pair<std::string, std::string>> Terminal::environment() {
  return {{"TERM", "xterm-256color"}, {"LC_ALL", "C.UTF-8"}};
}

void Terminal::resize(int columns, int rows) {
  const std::lock_guard lock(mutex_);
  winsize window{static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
  ioctl(master_, TIOCSWINSZ, &window);
  reflow(columns);
  rows_ = rows;
}

// Whole lines are taken apart and broken at the new width; the cursor stays on its character.
void Terminal::reflow(int columns) {
  std::vector<LineOfCells> fresh;
  std::size_t new_row = 0, new_column = 0;
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < all_.size();) {
    std::vector<std::string> whole;
    std::optional<std::size_t> cursor;
    for (bool more = true; more && i < all_.size(); ++i) {
      if (i == row_) cursor = whole.size() + column_;
      whole.insert(whole.end(), all_[i].cells.begin(), all_[i].cells.end());
      more = all_[i].wrapped;
    }
    if (cursor) new_row = fresh.size() + *cursor / width, new_column = *cursor % width;
    std::size_t at = 0;
    do {
      const auto end = std::min(at + width, whole.size());
      fresh.push_back(
          {{whole.begin() + static_cast<std::ptrdiff_t>(at), whole.begin() + static_cast<std::ptrdiff_t>(end)},
           end < whole.size()});
      at = end;
    } while (at < whole.size());
    while (fresh.size() <= new_row && cursor) fresh.emplace_back();
  }
  all_ = std::move(fresh);
  row_ = new_row;
  column_ = new_column;
  columns_ = columns;
}

std::size_t Terminal::top() const {
  return all_.size() - std::min(all_.size(), static_cast<std::size_t>(rows_));
}

std::string Terminal::screen() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (auto i = top(); i < all_.size(); ++i) text += text_of(all_[i].cells) + "\n";
  return text;
}

std::vector<std::string> Terminal::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  std::vector<std::string> whole;
  for (const auto& row : all_) {
    whole.insert(whole.end(), row.cells.begin(), row.cells.end());
    if (row.wrapped) continue;
    result.push_back(text_of(whole));
    whole.clear();
  }
  return result;
}

std::string Terminal::line_with(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  for (auto i = top(); i < all_.size(); ++i)
    if (auto line = text_of(all_[i].cells); line.find(text) != line.npos) return line;
  return "";
}

bool Terminal::wait_for(const std::string& text, Milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (line_with(text).empty()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(5));
  }
  return true;
}

std::string Terminal::unknown() const {
  const std::lock_guard lock(mutex_);
  return unknown_;
}

bool Terminal::was_cut() {
  const std::lock_guard lock(mutex_);
  return std::exchange(cut_, false);
}

void Terminal::read() {
  char buffer[4096];
  while (!stop_) {
    pollfd ready{master_, POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const auto count = ::read(master_, buffer, sizeof buffer);
    const std::lock_guard lock(mutex_);
    for (ssize_t i = 0; i < count; ++i) feed(buffer[i]);
  }
}

void Terminal::feed(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (!escape_.empty()) {
    escape_ += c;
    if (escape_.size() == 2 ? c == '[' : byte < 0x40) return;
    sequence(escape_.substr(2, escape_.size() - 3), c);
    escape_.clear();
  } else if (missing_ > 0) {
    character_ += c;
    if (--missing_ == 0) put(character_);
  } else if (byte >= 0xc0) {
    character_ = c;
    missing_ = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
  } else if (byte < 0x20) {
    control(c);
  } else {
    put(std::string(1, c));
  }
}

void Terminal::control(char c) {
  if (c == '\x1b')
    escape_ = c;
  else if (c == '\r')
    column_ = 0;
  else if (c == '\n')
    line_feed();
  else if (c == '\t')
    do put(" ");
    while (column_ % 8 != 0 && column_ < static_cast<std::size_t>(columns_));
  else
    unknown_ += "control " + std::to_string(static_cast<int>(c)) + "; ";
}

void Terminal::sequence(const std::string& parameters, char final) {
  auto& cells = all_[row_].cells;
  if (final == 'A') {
    const auto up = static_cast<std::size_t>(std::max(1, std::atoi(parameters.c_str())));
    row_ = std::max(top(), row_ - std::min(row_, up));
  } else if ((final == 'K' || final == 'J') && parameters.empty()) {
    if (cells.size() > column_) cells.resize(column_);
    all_[row_].wrapped = false;
    if (final == 'J') all_.resize(row_ + 1);
  } else if (parameters == "?7" && (final == 'l' || final == 'h')) {
    autowrap_ = final == 'h';
  } else {
    unknown_ += "ESC[" + parameters + final + "; ";
  }
}

void Terminal::line_feed() {
  if (++row_ == all_.size()) all_.emplace_back();
}

void Terminal::put(const std::string& character) {
  const std::size_t width = is_wide(character) ? 2 : 1, columns = static_cast<std::size_t>(columns_);
  if (column_ + width > columns && autowrap_) {
    all_[row_].wrapped = true;
    line_feed();
    column_ = 0;
  }
  cut_ = cut_ || column_ + width > columns;
  column_ = std::min(column_, columns - width);
  auto& cells = all_[row_].cells;
  if (cells.size() < column_ + width) cells.resize(column_ + width, " ");
  cells[column_] = character;
  if (width == 2) cells[column_ + 1] = "";
  column_ += width;
}

void keep_capture(const std::string& name, const std::string& screen) {
  std::filesystem::create_directories(PGBATON_TEST_CAPTURES);
  std::ofstream(std::string(PGBATON_TEST_CAPTURES) + "/" + name + ".txt") << screen;
  std::cout << "--- " << name << "\n" << screen << "---\n";
}

}  // namespace pgbaton::testing
