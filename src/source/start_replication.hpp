// The start of a stream on a replication connection, and what its errors mean.
#pragma once
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/source/walsender.hpp>

#include <string>

namespace pgbaton::source {

// wal_sender_timeout of this session; 0: none.
Milliseconds load_sender_timeout(pg::Connection& connection);
// That this connection reached the server of this identity (0: any); else Error(failed), action retry.
void require_server(pg::Connection& connection, std::uint64_t system_identifier, std::uint32_t timeline);
// Checks that the publications are there and starts the stream; afterwards the connection is in COPY BOTH.
void start_replication(pg::Connection& connection, const WalsenderOptions& options);
// An error result of the stream (or of the connection, when null) as Error: boundary_lost where no retry can help.
Error stream_error(const pg::Connection& connection, const PGresult* result, const std::string& slot);
// The same for an error that was thrown already.
Error as_stream_error(const Error& error, const std::string& slot);
// As require_server(), for a connection that speaks SQL; a server in recovery is another one, too.
void require_sql_server(pg::Connection& connection, std::uint64_t system_identifier, std::uint32_t timeline);
// For notices that libpq hands out: puts down the warning with which 18 leaves out a publication that is missing.
void note_missing_publication(std::string& missing, const PGresult* notice) noexcept;
// Changes were left out, because a publication was missing.
Error publication_error(const std::string& what);

}  // namespace pgbaton::source
