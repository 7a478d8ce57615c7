// --give-up-after of a run that shall end by itself, while its connections live: a position that the source does not
// reach is no error of any connection, and waiting for it would never end. Pure.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/time.hpp>

#include <optional>

namespace pgbaton::stream {

class ProgressClock {
 public:
  // Without a limit it never strikes.
  ProgressClock(std::optional<Milliseconds> limit, Clock::time_point now) : limit_(limit), last_progress_(now) {}

  // True when neither position has moved and nothing was `busy` for the limit: no message arrived, no change is being
  // applied, nobody holds the stream at a cut.
  bool strikes(Lsn received_lsn, Lsn applied_lsn, bool busy, Clock::time_point now) {
    if (busy || received_lsn != received_lsn_ || applied_lsn != applied_lsn_) last_progress_ = now;
    received_lsn_ = received_lsn;
    applied_lsn_ = applied_lsn;
    return limit_ && now - last_progress_ >= *limit_;
  }

 private:
  std::optional<Milliseconds> limit_;
  Clock::time_point last_progress_;
  Lsn received_lsn_, applied_lsn_;
};

}  // namespace pgbaton::stream
