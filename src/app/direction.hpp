// Which way a replica streams. After a switchover with a way back the same flags mean the same servers, but the stream
// goes from the target to the source, where its state is (pgbaton/state/switchover.hpp).
#pragma once
#include <string>

#include "context.hpp"

namespace pgbaton::app {

enum class Direction {
  forward,           // or there is no replica, or nobody can tell
  reverse,           // the application works on the target
  switching,         // it does, and the switchover has not ended
  rolling_back,      // it works on the source again, and the rollback has not ended
  rolled_back,       // the same, and only a record on the source is left of it
  without_way_back,  // it works on the target, and the switchover has not ended
};

// Asks the target, and the source where that is needed. A server that does not answer: as if nothing were there.
Direction find_direction(const Context& context);

// Lets commands that drive or look at a stream take it as it goes now; refuses those that would harm an application
// that works on the target. Error(usage). `follow` beside a switchover that is at work waits for its end.
void turn_round(Context& context);

// For one that ran when the application changed sides: waits until it is known which way the stream goes. False when
// there is no stream any more; else `context` is as it goes now.
bool follow_round(Context& context);

}  // namespace pgbaton::app
