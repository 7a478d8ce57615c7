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

// What the source's warnings say of a stream. Not thread-safe: notices come in the thread that reads the connection.
class StreamNotices {
 public:
  // For notices that libpq hands out.
  void take(const PGresult* notice) noexcept;
  // Error(boundary_lost) when the source (18) has left out a publication, because it is missing.
  void require_publications() const;

 private:
  std::string missing_publication_, waits_for_;
};

}  // namespace pgbaton::source
