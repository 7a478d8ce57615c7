#include "progress.hpp"

#include <pgbaton/base/log.hpp>

#include "screen.hpp"

namespace pgbaton::app {

namespace {

// Often enough to look alive and to follow a resized window; a frame costs well under a millisecond.
constexpr Milliseconds kFrame{200};

void run_live(View& view, const std::stop_token& stop) {
  Screen screen;
  bool utf8 = Screen::shows_utf8();
  do {
    auto size = Screen::size();
    screen.draw(view.block(Clock::now(), {size.columns - 1, size.rows, utf8}));  // a full line's end looks cut off
  } while (sleep_for(kFrame, stop));
}

void run_plain(View& view, Milliseconds interval, const std::stop_token& stop) {
  view.line(Clock::now());  // where rates are measured from
  while (sleep_for(interval, stop)) log::info("{}", view.line(Clock::now()));
}

}  // namespace

ProgressDisplay::ProgressDisplay(ProgressStyle style, std::unique_ptr<View> view, Milliseconds interval)
    : view_(std::move(view)) {
  switch (style) {
    case ProgressStyle::none:
      return;
    case ProgressStyle::plain:
      thread_ = std::jthread([this, interval](const std::stop_token& stop) { run_plain(*view_, interval, stop); });
      return;
    case ProgressStyle::live:
      thread_ = std::jthread([this](const std::stop_token& stop) { run_live(*view_, stop); });
      return;
  }
}

}  // namespace pgbaton::app
