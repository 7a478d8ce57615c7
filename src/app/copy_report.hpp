// While a copy runs: what it has done so far, once a second into the state on the target, for `status` from any
// machine.
#pragma once
#include <pgbaton/copy/progress.hpp>

#include <thread>

#include "context.hpp"
#include "view.hpp"
#include "wal_watch.hpp"

namespace pgbaton::app {

// The step as the state, `status` and the page spell it.
std::string_view step_name(copy::Step step);

class CopyReport {
 public:
  // Until destroyed. The arguments must outlive it. A target that is away is the copy's to wait for.
  CopyReport(const Context& context, const copy::CopyProgress& progress, const WalWatch& wal);

 private:
  void run(const std::stop_token& stop);
  state::Fields fields(Clock::time_point now);

  const Context& context_;
  const copy::CopyProgress& progress_;
  const WalWatch& wal_;
  CopyPace pace_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace pgbaton::app
