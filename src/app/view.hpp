// What a progress display shows, without knowing where: a line for a log, or a block of lines for a terminal. A view
// remembers what it showed last, for rates; one thread calls it, with a clock that never goes back.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/copy/progress.hpp>
#include <pgbaton/stream/stream.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layout.hpp"

namespace pgbaton::app {

class View {
 public:
  virtual ~View() = default;
  virtual std::string line(Clock::time_point now) = 0;
  virtual std::vector<std::string> block(Clock::time_point now, const Layout& layout) = 0;
};

// `progress` must outlive the view.
std::unique_ptr<View> copy_view(const copy::CopyProgress& progress);
std::unique_ptr<View> stream_view(std::function<stream::StreamStatus()> status);

// How fast a counter grows, per second: over the time since the last look when that is long, else smoothed over the
// last seconds.
class Rate {
 public:
  double update(std::int64_t value, Clock::time_point now);

 private:
  std::optional<Clock::time_point> first_, last_;
  std::int64_t value_ = 0;
  double rate_ = 0;
};

}  // namespace pgbaton::app
