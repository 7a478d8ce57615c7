// Copying in rounds. A round has one boundary: a settled slot snapshot, the schema as it saw it, and the tables that
// still lack rows. The first is the slot's own; what it could not copy (rewritten tables, a holder that died, a crash)
// is taken in another round at a new boundary, from a temporary slot.
#pragma once
#include "build.hpp"

namespace pgbaton::snapshot {

// Ends with every recorded table committed, indexed, guarded and analyzed (or skipped), and phase indexing stored.
void copy_everything(Build& build);

}  // namespace pgbaton::snapshot
