// Which tables are copied, how each is published, and which guard it gets.
#pragma once
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/source/publication.hpp>

#include <map>
#include <string>
#include <vector>

#include "identity_full.hpp"

namespace pgbaton::snapshot {

// 12 has publications, but not of partitioned tables (version number of the server).
inline constexpr int kFirstToPublishRoots = 130000;

struct TablePlan {
  // Leaves and plain tables that are copied, and those that are recorded as skipped, with the reason: partitioned
  // tables (their rows are in the leaves), unlogged ones, those of --exclude-data.
  std::vector<copy::CopyJob> jobs;
  source::PublicationPlan publications;
  std::map<catalog::Oid, std::string> guard_reasons;  // copied tables that get no guard column, and why
  std::vector<QualifiedName> left_out;                // by the filter: not in the schema either
  std::vector<ChosenIdentity> identity_full;  // of Keyless::full: planned as if they had it, and not altered yet
};

// Reads only. The target, if there is one yet, says which tables it publishes itself.
TablePlan plan_tables(pg::Control& source, pg::Control* target, const CloneOptions& options);

}  // namespace pgbaton::snapshot
