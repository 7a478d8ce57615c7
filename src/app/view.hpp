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
  // The first value, when the rate of the time before is known by other means: what the next look replaces.
  void begin(std::int64_t value, double rate, Clock::time_point now);

 private:
  std::optional<Clock::time_point> first_, last_;
  std::int64_t value_ = 0;
  double rate_ = 0;
};

// How fast a copy goes and how far it is, by the sizes of tables on the source: what COPY carries is less where there
// is dead space, so a table that is done counts as a whole. One thread asks, with a clock that never goes back.
class CopyPace {
 public:
  struct Look {
    std::int64_t size_copied = 0, bytes_per_second = 0, rows_per_second = 0;
    double share = 0;          // 0 … 1
    double seconds_left = -1;  // -1: not known (yet)
    bool begun = false;        // some rows are still to be copied, and it has begun
  };
  explicit CopyPace(const copy::CopyProgress& progress) : progress_(progress) {}
  Look look(Clock::time_point now);
  double share_of_tables(std::int64_t tables, std::int64_t size) const;  // empty tables have no size

 private:
  const copy::CopyProgress& progress_;
  void begin(double share, Clock::time_point now);
  std::optional<Clock::time_point> copying_since_;
  double share_before_ = 0;
  std::int64_t bytes_per_second_ = 0, rows_per_second_ = 0;
  Rate bytes_rate_, rows_rate_;
};

}  // namespace pgbaton::app
