// What DDL of the source has left behind beside the rows (catalog/definition.hpp), for the last look before a replica
// ends or takes its source's place.
#pragma once
#include <pgbaton/catalog/definition.hpp>
#include <pgbaton/state/store.hpp>

#include <vector>

namespace pgbaton::snapshot {

// Nothing with --schema none, where the target's definitions are the user's. A long list is cut, and says so; what
// keeps the comparison from being made is one of its lines.
std::vector<catalog::DefinitionDifference> definitions_unlike(pg::Control& source, pg::Control& target,
                                                              const state::Replica& replica,
                                                              const std::vector<state::TableState>& tables);

}  // namespace pgbaton::snapshot
