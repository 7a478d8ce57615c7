// The progress row of one applier: written last in the transaction that holds the rows it speaks of.
#pragma once
#include <pgbaton/apply/applier.hpp>

namespace pgbaton::apply {

struct ProgressStep {
  Lsn applied_lsn;
  std::int64_t source_commit_time = 0;  // microseconds since 2000-01-01; 0: keep what is stored
  std::int64_t transactions = 0, changes = 0;
};

// Exactly one row must take it: the one of our epoch, not yet beyond applied_lsn. Throws Error(held_elsewhere) when
// another writer's epoch is there, Error(failed, retry) when the table states have changed, Error(failed) with action
// bug when progress would go backward. The caller rolls back.
void store_progress(pg::Connection& connection, const ApplierOptions& options, const ProgressStep& step);

}  // namespace pgbaton::apply
