// What the commands that write share: an error after the lease is taken is recorded for `status` and `wait`, and a
// stream is run with its progress lines.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/stream/stream.hpp>

#include "context.hpp"
#include "events.hpp"
#include "render.hpp"

namespace pgbaton::app {

// The lease, and after it a connection for the state: --take-over ends every session of the replica on the target, also
// one of our own that is open by then.
struct Writer {
  state::Lease lease;
  std::unique_ptr<pg::Control> target;
};
Writer become_writer(const Context& context);

// The replica, or Error(usage) "no such replica".
state::Replica require_replica(const Context& context, state::Store& store);
// Error(boundary_lost) when the source was found to have gone back in time, and nothing shows that this is another
// server than the one found then: it may hold less than the target.
void require_unbroken(const Context& context, state::Store& store, const state::Replica& replica);
// Error(usage) when the copy is not complete.
void require_copied(const state::Replica& replica);

// Stores the error as the replica's last_error and as an event, on a connection of its own. Never throws; false when it
// is not stored. What says nothing about the replica is left out: wrong options, an end on request, a lease that is
// somebody else's now.
bool record_error(const Context& context, const Error& error) noexcept;

// Runs `work`; an error is recorded there and in --events before it goes on its way.
template <typename Work>
auto recording_errors(const Context& context, EventFile& events, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    if (!record_error(context, error)) events.add("failed", last_error_json(error));
    throw;
  } catch (const std::exception& error) {
    record_error(context, Error(ErrorKind::failed, error.what()));
    throw;
  }
}

// `finish` makes foreign keys, triggers and rules that were left for the end, where the role may not switch them off.
// From then on no change may be applied: they would fire for it.
inline constexpr std::string_view kFinishBegun = "finish_begun";
bool finish_has_begun(state::Store& store, const state::Replica& replica);

struct StreamRun {
  stream::Ended ended = stream::Ended::stopped;
  stream::StreamStatus status;
  Milliseconds time{0};
};
// Streams with progress lines. The replica must carry the epoch of the term that has begun. `completes`: the end lies
// behind the whole copy, so that the replica should be ready afterwards; it is said if not.
StreamRun run_stream(const Context& context, state::Lease& lease, const state::Replica& replica,
                     const stream::Until& until, bool completes);
// Error(failed) for a bounded command that was stopped before its end.
void require_reached(stream::Ended ended);

// A position that everything committed on the source by now lies below, and that an idle source reaches too.
Lsn current_barrier(const Context& context);

}  // namespace pgbaton::app
