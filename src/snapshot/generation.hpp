// The record of a generation: making a new one, loading that of an unfinished one.
#pragma once
#include <pgbaton/catalog/server.hpp>

#include <vector>

#include "build.hpp"
#include "plan.hpp"

namespace pgbaton::snapshot {

// Random, version 4.
std::string new_uuid();
// The replica row of a new generation in phase creating; `restored`: its schema is on the target already.
state::Replica new_generation(const Build& build, const TablePlan& plan, bool restored);
std::vector<state::TableState> states_of(const std::vector<copy::CopyJob>& jobs);
// --publication: verifies it and makes the plan use it; tables without usable identity are in it, too.
void adopt_publication(pg::Control& source, const CloneOptions& options, TablePlan& plan);
// Records that the table is not copied, and takes back what parts of it have left on the target.
void skip_table(Build& build, state::TableState& table, const std::string& reason);
// The recorded tables as jobs, described as the source has them now. A table that is gone there is recorded as skipped.
void load_jobs(Build& build);
// A replica in phase creating was begun on this very source; else Error(usage).
void require_same_source(const Build& build);
void require_same_source(const catalog::Server& server, const state::Replica& replica);

}  // namespace pgbaton::snapshot
