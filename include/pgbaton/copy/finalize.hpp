// What follows a table's rows: indexes and constraints, guard column, ANALYZE; and at the very end foreign keys,
// triggers, rules, sequences. Every step asks the target's catalog first, so that it can be repeated after a crash.
#pragma once
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <stop_token>
#include <vector>

namespace pgbaton::copy {

// Indexes, primary key, unique, exclusion and unvalidated check constraints of these tables (leaves and plain tables;
// of a partitioned root nothing is built here), from the archive; those that exist already are skipped. One connection
// per call, each object in its own transaction. Threads may call it at the same time for different tables.
void build_indexes(const pg::Endpoint& target, const SchemaArchive& archive, const std::vector<CopyJob>& tables,
                   const std::stop_token& stop);
// ALTER TABLE … ADD COLUMN kGuardColumn pg_lsn NOT NULL DEFAULT boundary: metadata only, repeatable. For a partition
// tree at its root with the smallest boundary of its leaves, once all of them are copied. Plain inheritance: children
// first, each with its own boundary, then the parent. Error(rejected) when a column of that name has another default or
// type.
void add_guard(pg::Control& target, const QualifiedName& table, Lsn boundary);
// Never CASCADE; Error(rejected) names what depends. Of an inherited column the ancestors' go first. None: nothing
// happens.
void drop_guard(pg::Control& target, const QualifiedName& table);
// The side table of a table with guard `ledger`, empty, in schema pgbaton; its name and key go into `table`. Only
// before the first change is applied to the table. False: the target's table has no key for one, nothing is made.
bool add_ledger(pg::Control& target, const std::string& replica, const catalog::Table& source,
                state::TableState& table);
void drop_ledger(pg::Control& target, const std::string& ledger);  // none of this name: nothing happens
void analyze(pg::Control& target, const QualifiedName& table);

struct RestReport {
  std::vector<std::string> warnings;  // logged already; for the run's summary
};
// All of post-data that is not there yet: indexes of partitioned roots and their attachments, views, rules, foreign
// keys (orphans are reported and the key stays NOT VALID), triggers, policies, statistics, comments, default
// privileges; then materialized views are refreshed. `with_triggers` false leaves out foreign keys, triggers, rules and
// event triggers, for a target where session_replication_role may not be set: call it again with true at finish.
// `gently` beside a running stream: foreign keys are added NOT VALID and validated then, which holds nobody up.
RestReport restore_rest(const pg::Endpoint& target, const SchemaArchive& archive, bool with_triggers,
                        const std::stop_token& stop, bool gently = false);
// setval for every sequence that exists on both sides, source's last_value + gap × increment, all or none. One that was
// never called stays so. Returns how many. Error(rejected) names one that would pass its limit.
// `missing` receives the source's sequences that the target does not have. With `ahead`, one that is further on the
// target than it would be set is left as it is, and told there: an application has used it.
struct SequenceAhead {
  QualifiedName name;
  std::int64_t value = 0, wanted = 0;
};
int copy_sequences(pg::Control& source, pg::Control& target, std::int64_t gap,
                   std::vector<QualifiedName>* missing = nullptr, std::vector<SequenceAhead>* ahead = nullptr);

}  // namespace pgbaton::copy
