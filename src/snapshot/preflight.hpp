// What must hold before anything is made. The command `check` looks at more; these are the conditions under which a
// clone would destroy, mix up or adopt something that is not its own.
#pragma once
#include <string>
#include <vector>

#include "build.hpp"
#include "plan.hpp"

namespace pgbaton::snapshot {

void refuse_same_database(const Build& build);
// wal_level, recovery.
void require_logical_source(const catalog::Server& source, bool slot_failover = false);
// No slot or publication of our names: what our state does not know is never adopted.
void require_names_free(pg::Control& source, const CloneOptions& options, const source::PublicationPlan& plan);
// --schema full: none of the tables exists (unless an earlier generation of this replica restored them, `restored`);
// --schema none: all exist and are empty.
void require_target_tables(pg::Control& target, const CloneOptions& options, const TablePlan& plan, bool restored);
// What FROM takes to see a table's own rows, and not those of its children by inheritance: those of a partitioned table
// (kind 'p') are in its partitions.
std::string own_rows(const QualifiedName& table, char kind);

}  // namespace pgbaton::snapshot
