// A pseudo-terminal with an emulator behind it, which knows exactly the control sequences that the product may use;
// any other is kept in unknown(). Wraps long lines, scrolls, keeps everything scrolled out, and when its width changes
// it breaks lines anew, as most terminals of today do.
//
//   Terminal terminal(80, 24);
//   Tool tool(arguments, terminal.environment(), terminal.device());
//   EXPECT_TRUE(terminal.wait_for("rows/s"));
#pragma once
#include "process.hpp"

#include <atomic>
#include <mutex>
#include <thread>

namespace pgbaton::testing {

class Terminal {
 public:
  Terminal(int columns, int rows);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  const std::string& device() const { return device_; }
  static std::vector<std::pair<std::string, std::string>> environment();
  // The window's size, as a user changes it. The kernel sends SIGWINCH to a terminal's own foreground group only: a
  // process that was merely given this device gets none.
  void resize(int columns, int rows);

  // The visible rows without blanks at their ends, one per line.
  std::string screen() const;
  // Everything ever shown and not erased, from the first row; rows that were wrapped are one line.
  std::vector<std::string> lines() const;
  // What a line of the screen that holds `text` looks like; "" when there is none.
  std::string line_with(const std::string& text) const;
  bool wait_for(const std::string& text, Milliseconds timeout = Milliseconds(30'000)) const;
  std::string unknown() const;
  // Whether something was written beyond the right edge while wrapping was off, since the last call.
  bool was_cut();

 private:
  struct LineOfCells {
    std::vector<std::string> cells;  // a wide character is followed by an empty cell
    bool wrapped = false;            // goes on in the next row
  };
  void read();
  void feed(char c);
  void control(char c);
  void sequence(const std::string& parameters, char final);
  void put(const std::string& character);
  void line_feed();
  void reflow(int columns);
  std::size_t top() const;

  int master_ = -1, slave_ = -1;
  std::string device_;
  mutable std::mutex mutex_;
  int columns_, rows_;
  std::vector<LineOfCells> all_{1};
  std::size_t row_ = 0, column_ = 0;
  bool autowrap_ = true, cut_ = false;
  std::string escape_, character_, unknown_;
  std::size_t missing_ = 0;  // bytes of character_
  std::atomic<bool> stop_{false};
  std::thread reader_;
};

// Prints a capture into the test's output and keeps it as a file beside it.
void keep_capture(const std::string& name, const std::string& screen);

}  // namespace pgbaton::testing
