// What follows a table's rows: indexes and constraints, guard column, ANALYZE; and at the very end foreign keys, triggers,
// rules, sequences. Every step asks the target's catalog first, so that it can be repeated after a crash.
#pragma once
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/control.hpp>

#include <stop_token>
#include <vector>

namespace pgbaton::copy {

// Indexes, primary key, unique and exclusion constraints of one table (or of several small ones in one go), built from
// the archive; those that exist already are skipped.
void build_indexes(const pg::Endpoint& source, const pg::Endpoint& target, const SchemaArchive& archive,
                   const std::vector<CopyJob>& tables, const std::stop_token& stop);
// ALTER TABLE … ADD COLUMN kGuardColumn pg_lsn NOT NULL DEFAULT boundary: metadata only. For a partition tree at its root
// with the smallest boundary of its leaves, once all of them are copied.
void add_guard(pg::Control& target, const QualifiedName& table, Lsn boundary);
void drop_guard(pg::Control& target, const QualifiedName& table);  // never CASCADE; Error(rejected) names what depends
void analyze(pg::Control& target, const QualifiedName& table);
// All of post-data that is not an index of a table: foreign keys (NOT VALID then validated; orphans are reported and stay
// NOT VALID), triggers, rules, policies, statistics, cluster marks. `with_triggers` false leaves out foreign keys and
// triggers, for a target where session_replication_role may not be set (they follow at finish).
void restore_rest(const pg::Endpoint& source, const pg::Endpoint& target, const SchemaArchive& archive,
                  bool with_triggers, const std::stop_token& stop);
// setval for every sequence that exists on both sides, source's last_value + gap × increment, all or none.
// Returns how many. Error(rejected) names one that would pass its limit.
int copy_sequences(pg::Control& source, pg::Control& target, std::int64_t gap);

}  // namespace pgbaton::copy
