// Running entries of an archive on the target.
#pragma once
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/connection.hpp>

#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::copy {

// A connection with the session settings that a dump's statements count on. A lock is waited for in steps (55P03
// outside of exec_waiting).
pg::Connection open_restore(const pg::Endpoint& target, std::string_view role);

// Runs SQL outside of a transaction for as long as it takes; who is in the way of its locks on `table` is logged.
void exec_waiting(pg::Connection& target, const std::string& sql, const std::string& doing, const QualifiedName& table,
                  const std::stop_token& stop);

// Runs one entry (its statements are one transaction when none is open). Errors name the entry and carry a hint.
void run_entry(pg::Connection& target, const TocEntry& entry, const std::stop_token& stop);

// SchemaArchive::restore_pre_data.
void restore_definitions(const pg::Endpoint& target, const std::vector<TocEntry>& entries, const std::stop_token& stop,
                         const RestoreRecord& record);

// "INDEX public.t_a_idx", for messages.
std::string describe(const TocEntry& entry);

}  // namespace pgbaton::copy
