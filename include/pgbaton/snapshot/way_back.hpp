// The way back of a switchover: publications and a slot on what was the target, made before the application writes
// there, and the record of the replica that will stream from them to what was the source.
//
// Example: the last change of the forward stream commits on the target at 0/4F00, the slot was made at 0/4A00, and the
// writer has ended. 0/5000 is read there now, and the flip commits at 0/5100. The new replica begins at 0/5000: its
// slot still hands out what was applied from 0/4A00 on, and the stream drops it, since it holds what the source has
// itself. So no change goes round, and none of the application's is missing.
#pragma once
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/state/switchover.hpp>

#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::snapshot {

struct WayBackRequest {
  pg::Endpoint from;       // the target of the replica, where the application will write
  state::Replica replica;  // as it is, with the writer's term
  bool reversed = false;   // it is itself a way back: then this one leads forward again
  Milliseconds slot_wait{60'000};
};

// Names of what is made for one that leads back; those of one that leads forward are the replica's own.
ReplicaNames way_back_names(const ReplicaNames& names, bool reversed);

// Records, then makes; what an earlier run has left is removed before. Needs the writer's lease. Waits for open write
// transactions of that server (slot_wait). What it has made when it throws is recorded.
void make_way_back(const WayBackRequest& request, const std::stop_token& stop);
// Slot and publications on that server, and the record. Nothing happens where there is none, or once it was flipped.
void unmake_way_back(pg::Control& from, const state::Replica& replica);
// Slot and publications alone, of whatever is recorded; lines for people.
std::vector<std::string> drop_way_back_objects(pg::Control& from, const state::WayBack& way_back);
// Where the application works: the row that tells of the way back, when the replica that took it goes. False when there
// is none of this replica.
bool forget_way_back_to(pg::Control& source, const state::Replica& replica);

// What is left of the stream that led to `target` when it was flipped: slot and publications on the source, guards,
// ledgers and table states on the target. `keep`: its row stays and tells the way back; else it goes, too.
RemovalReport end_switched_stream(const pg::Endpoint& source, const pg::Endpoint& target, const std::string& name,
                                  bool keep);

}  // namespace pgbaton::snapshot
