// Progress for people, on stderr: redrawn in place on a terminal, else a line every 10 s in the log. One thread of its
// own, which only reads counters.
#pragma once
#include <memory>
#include <thread>

#include "view.hpp"

namespace pgbaton::app {

enum class ProgressStyle { none, plain, live };

class ProgressDisplay {
 public:
  // Shows `view` until destroyed; then nothing of a live display is left.
  ProgressDisplay(ProgressStyle style, std::unique_ptr<View> view, Milliseconds interval = Milliseconds(10'000));

 private:
  std::unique_ptr<View> view_;
  std::jthread thread_;
};

}  // namespace pgbaton::app
