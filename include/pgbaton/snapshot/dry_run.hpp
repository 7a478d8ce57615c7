// clone --dry-run: what a clone would do, by the very planner that a clone uses.
#pragma once
#include <pgbaton/snapshot/clone.hpp>

#include <set>
#include <string>
#include <vector>

namespace pgbaton::snapshot {

struct PlannedTable {
  QualifiedName name;
  std::uint64_t bytes = 0;
  double estimated_rows = -1;  // -1 unknown
  int parts = 1;               // COPY commands
  bool copied = true;          // false: `note` says why not
  state::GuardKind guard = state::GuardKind::none;
  std::string guard_reason;  // of a copied table without guard column
  std::string publication;   // "" when its rows are not published by its own name
  std::string note;
};

// From sizes and rates measured elsewhere: what to expect, not what is promised.
struct Estimate {
  std::size_t tables = 0;                    // that are copied
  std::uint64_t table_bytes = 0;             // of their rows, on the source
  Milliseconds copy_time{0}, index_time{0};  // one after the other; in truth they overlap
  std::uint64_t index_bytes = 0;             // on the source, and about so on the target
  std::uint64_t target_wal_bytes = 0;
  std::uint64_t source_wal_per_second = 0;  // seen while planning
  std::uint64_t slot_wal_bytes = 0;         // at that rate, what the slot holds when the copy is done
};

struct DryRun {
  std::string name, slot, publication, publication_inserts;  // publication_inserts "" when not needed
  bool own_publication = true;
  SchemaMode schema = SchemaMode::full;
  std::vector<PlannedTable> tables;  // in the order of the copy, then those that are not copied
  std::vector<QualifiedName> left_out;
  std::uint64_t bytes_total = 0;
  int source_connections = 0, target_connections = 0;  // at most, while copying; one of the source's is a walsender
  Estimate estimate;
};

// Reads both sides in read-only transactions, and nothing else. `kept` are the tables that an earlier run has copied.
DryRun plan_clone(const CloneOptions& options, const std::set<QualifiedName>& kept = {});

}  // namespace pgbaton::snapshot
