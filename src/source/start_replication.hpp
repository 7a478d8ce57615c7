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
// Changes were left out, because a publication was missing.
Error publication_error(const std::string& what);

}  // namespace pgbaton::source
