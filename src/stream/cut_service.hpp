// The writer's part of a cut that somebody else asked for (shared_cut.hpp tells the story). The housekeeper's thread.
#pragma once
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/stream/stream.hpp>

#include <functional>
#include <memory>
#include <vector>

#include "gate.hpp"

namespace pgbaton::stream {

class CutService {
 public:
  // `source` is idle between calls.
  CutService(const StreamOptions& options, const state::Replica& replica, Gate& gate, pg::Control& source)
      : options_(options), replica_(replica), gate_(gate), source_(source) {}

  // Blocks for the time of rest. `meanwhile` is called about once a second in a rest that is held. Whatever prevents
  // the cut becomes the request's result; only errors of the store's own connection are thrown.
  void serve(state::Store& store, const state::Request& request, const std::function<void()>& meanwhile,
             const std::stop_token& stop);
  // Lets go of snapshots that their requesters have imported, or do not come for.
  void tidy(state::Store& store);

 private:
  // Slot and snapshots of one cut, for the time until the requester has imported them.
  struct Pair {
    std::int64_t request_id = 0;
    int requester_pid = 0;
    Lsn cut_lsn;
    std::unique_ptr<source::SlotSnapshot> source;
    std::optional<pg::Connection> target;
    std::string target_snapshot;
    Clock::time_point rested_since;
    Milliseconds pause{0};
    Deadline keep_until = Deadline::never();
    std::optional<Cut> cut;  // while it is held
  };

  Pair take(const state::Request& request, bool hold, const std::stop_token& stop);
  void refuse_while_blocked();
  void hold(state::Store& store, Pair& pair, Milliseconds at_most, const std::function<void()>& meanwhile,
            const std::stop_token& stop);
  bool wanted(state::Store& store, const Pair& pair) const;

  const StreamOptions& options_;
  const state::Replica& replica_;
  Gate& gate_;
  pg::Control& source_;
  std::vector<Pair> pairs_;
};

}  // namespace pgbaton::stream
