// Progress for people, on stderr: a plain line every 10 s while copying and while streaming. One thread of its own,
// which only reads atomics (CopyProgress) and Stream::status(). A display is a Line function and a place to write; a
// live one for terminals needs another writer and the same functions.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/stream/stream.hpp>

#include <functional>
#include <string>
#include <thread>

namespace pgbaton::app {

// Seconds since the previous call, for rates; the first call has the time since the start.
using Line = std::function<std::string(double seconds)>;

class ProgressDisplay {
 public:
  // Writes line(…) every `interval` until destroyed; nothing when not `shown`.
  ProgressDisplay(bool shown, Line line, Milliseconds interval = Milliseconds(10'000));

 private:
  std::jthread thread_;
};

// "copying: 3 of 12 tables, 120 MB of 1.2 GB (10 %), 24 MB/s". `progress` must outlive the line.
Line copy_line(const copy::CopyProgress& progress);
// "streaming: applied 0/3000148, 12 kB behind (0.2 s), 1250 changes/s, 400 transactions/s". As above.
Line stream_line(const stream::Stream& stream);

}  // namespace pgbaton::app
