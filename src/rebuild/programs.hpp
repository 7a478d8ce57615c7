// What the user adds: SQL files, run by psql, and commands, run by sh.
#pragma once
#include "registry.hpp"

namespace pgbaton::rebuild {

// Each file in a psql of its own that ends at the first error (ON_ERROR_STOP), without our session settings and without
// a psqlrc. `pg_dump` as --pg-dump: psql is the one beside it. Error(failed) names file and psql's message.
void run_sql_files(const Place& place, const std::string& database, const std::vector<std::string>& files,
                   const std::string& pg_dump, const std::stop_token& stop);
// A file that cannot be read is told before anything is made.
void require_readable(const std::vector<std::string>& files);

// Environment: PGBATON_LIVE, PGBATON_DATABASE (as it is called now), PGBATON_GENERATION, PGBATON_POSITION. "" nothing.
// Error(failed) holds the code and the last lines of both of its streams.
void run_hook(std::string_view option, const std::string& command, const Generation& generation,
              const std::string& database, const std::stop_token& stop);

// What can be said of them before anything is made, without running them: blockers for files that cannot be read, a
// psql that is not there, and commands that sh cannot parse or whose program it would not find.
std::vector<snapshot::Finding> check_programs(const Options& options);

}  // namespace pgbaton::rebuild
