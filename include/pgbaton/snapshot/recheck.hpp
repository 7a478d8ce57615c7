// What has changed on the source since the replica was planned and is not for the stream to notice: DDL sends nothing.
#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <vector>

namespace pgbaton::snapshot {

// Warns of each table that the replica's own choice takes in and that came later (it is not carried), and of each whose
// updates are published though it has no usable identity any more (they fail on the source). Reads only.
void report_changes(pg::Control& source, const state::Replica& replica, const std::vector<state::TableState>& tables);

}  // namespace pgbaton::snapshot
