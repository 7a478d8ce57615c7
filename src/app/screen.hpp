// The lower end of a terminal on stderr: a block of lines that is redrawn in place, with the log above it.
//
// The cursor rests at the block's first character. Erasing the block then needs no count of rows: everything from the
// cursor on goes, however a terminal has wrapped the old lines when its window was made narrower. While a line of the
// block is written, the terminal's own wrapping is switched off, so a window that shrinks meanwhile cuts it.
#pragma once
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::app {

struct ScreenSize {
  int columns = 80, rows = 24;
};

class Screen {
 public:
  // Whether stderr is a terminal on which a block can be redrawn.
  static bool available();
  // Whether it shows UTF-8, by LC_ALL, LC_CTYPE and LANG.
  static bool shows_utf8();

  Screen();   // from here on the log's lines go through the screen
  ~Screen();  // erases the block
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // As it is now: a resized window is met at the next draw.
  static ScreenSize size();
  // Replaces the block. No line may be wider than size().columns; what does not fit below the first row is left out.
  void draw(const std::vector<std::string>& lines);

 private:
  void write_above(std::string_view text);

  std::mutex mutex_;   // the log's threads and the display's
  std::string block_;  // as it was drawn last, cursor movements included
};

}  // namespace pgbaton::app
