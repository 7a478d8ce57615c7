// clone --dry-run: what a clone would do, by the very planner that a clone uses.
#pragma once
#include <pgbaton/snapshot/clone.hpp>

#include <string>
#include <vector>

namespace pgbaton::snapshot {

struct PlannedTable {
  QualifiedName name;
  std::uint64_t bytes = 0;
  double estimated_rows = -1;  // -1 unknown
  bool copied = true;          // false: `note` says why not
  state::GuardKind guard = state::GuardKind::none;
  std::string publication;  // "" when its rows are not published by its own name
  std::string note;
};

struct DryRun {
  std::string name, slot, publication, publication_inserts;  // publication_inserts "" when not needed
  bool own_publication = true;
  SchemaMode schema = SchemaMode::full;
  std::vector<PlannedTable> tables;  // in the order of the copy, then those that are not copied
  std::vector<QualifiedName> left_out;
  std::uint64_t bytes_total = 0;
  int copy_connections = 0;  // on each side
};

// Reads the source in read-only transactions, and nothing else.
DryRun plan_clone(const CloneOptions& options);

}  // namespace pgbaton::snapshot
