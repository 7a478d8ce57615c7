// A stream without end, of `follow` or of `clone --follow`, outlives a switchover: it gives its writer's lease away,
// waits, and streams on from where the application works then.
#pragma once
#include <functional>

#include "events.hpp"
#include "writer.hpp"

namespace pgbaton::app {

// As far as the flags of follow say. Begins a term.
RunResult follow_stream(const Context& context, state::Store& store, state::Lease& lease);

struct Round {
  std::function<Writer()> begin;
  std::function<RunResult(state::Store&, state::Lease&)> work;
};
// The first round, and follow_stream() again after each switchover that took the stream; `context` is as the stream
// goes by then. What the first one copied stays in the result. Errors are recorded.
RunResult run_rounds(Context& context, EventFile& events, const Round& first);

}  // namespace pgbaton::app
