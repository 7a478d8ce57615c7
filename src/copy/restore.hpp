// Running entries of an archive on the target.
#pragma once
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/connection.hpp>

#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::copy {

// A connection with the session settings that a dump's statements count on.
pg::Connection open_restore(const pg::Endpoint& target, std::string_view role);

// Runs one entry (its statements are one transaction when none is open). Errors name the entry and carry a hint.
void run_entry(pg::Connection& target, const TocEntry& entry, const std::stop_token& stop);

// SchemaArchive::restore_pre_data.
void restore_definitions(const pg::Endpoint& target, const std::vector<TocEntry>& entries, const std::stop_token& stop,
                         const RestoreRecord& record);

// "INDEX public.t_a_idx", for messages.
std::string describe(const TocEntry& entry);

}  // namespace pgbaton::copy
