#include "start_replication.hpp"

#include <fmt/format.h>

#include <charconv>
#include <pgbaton/base/name.hpp>

namespace pgbaton::source {
namespace {

// What the walsender's own grammar takes: '' inside quotes, and nothing else.
std::string protocol_literal(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

std::string start_command(const WalsenderOptions& options, int version_num) {
  std::string names;
  for (const auto& name : options.publications) names += (names.empty() ? "" : ",") + quote_identifier(name);
  return fmt::format("START_REPLICATION SLOT {} LOGICAL {} (\"proto_version\" '1', \"publication_names\" {}{})",
                     quote_identifier(options.slot), to_string(options.start_lsn), protocol_literal(names),
                     version_num >= 140000 ? ", \"messages\" 'true'" : "");
}

void require_publications(pg::Connection& connection, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto found = connection.exec("SELECT 1 FROM pg_publication WHERE pubname = " + protocol_literal(name));
    if (found.rows() == 0)
      throw publication_error(fmt::format("publication {} does not exist", quote_identifier(name)));
  }
}

}  // namespace

// In use (55006) is the walsender of a connection of ours that broke: it ends within wal_sender_timeout.
Error stream_error(const pg::Connection& connection, const PGresult* result, const std::string& slot) {
  Error error = connection.error(result, "reading slot " + quote_identifier(slot));
  if (error.sqlstate() == "55006") {
    error.hint(
        "If that is no connection of pgbaton that broke a moment ago, another client reads this slot and takes its "
        "changes away: look for the pid in pg_stat_replication on the source and stop it.");
  }
  const auto& state = error.sqlstate();
  const bool wal_removed = state == "58P01", invalid = state == "55000", undefined = state == "42704";
  if (!wal_removed && !invalid && !undefined) return error;
  return Error(ErrorKind::boundary_lost, error.message())
      .side(Side::source)
      .sqlstate(state)
      .hint(undefined
                ? "The slot or a publication of the replica is gone. A new bootstrap is needed: pgbaton clone "
                  "--restart."
                : "What the slot needs is gone on the source. A new bootstrap is needed: pgbaton clone --restart.");
}

Error publication_error(const std::string& what) {
  return Error(ErrorKind::boundary_lost, what)
      .side(Side::source)
      .hint("Changes were left out of the stream. A new bootstrap is needed: pgbaton clone --restart.");
}

Milliseconds load_sender_timeout(pg::Connection& connection) {
  const auto setting = connection.exec("SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'");
  std::int64_t milliseconds = 0;
  if (setting.rows() == 1) {
    const auto text = setting.value(0, 0);
    std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  }
  return Milliseconds(milliseconds);
}

void require_server(pg::Connection& connection, std::uint64_t system_identifier, std::uint32_t timeline) {
  const auto identity = connection.exec("IDENTIFY_SYSTEM");
  if (identity.rows() != 1) throw Error(ErrorKind::failed, "IDENTIFY_SYSTEM gave nothing").side(Side::source);
  const auto same = [&](int column, auto expected) {
    return expected == 0 || identity.value(0, column) == std::to_string(expected);
  };
  if (same(0, system_identifier) && same(1, timeline)) return;
  throw Error(ErrorKind::failed, fmt::format("connections of one moment reached different servers: system identifier "
                                             "{} on timeline {}, and {} on timeline {}",
                                             system_identifier, timeline, identity.value(0, 0), identity.value(0, 1)))
      .side(Side::source)
      .action(Action::retry)
      .hint("Let the connection string lead to the primary alone (target_session_attrs=read-write).");
}

void start_replication(pg::Connection& connection, const WalsenderOptions& options) {
  if (options.system_identifier != 0) require_server(connection, options.system_identifier, options.timeline);
  require_publications(connection, options.publications);
  // The warning of 18 about a missing publication must come through, whatever the role's default is.
  connection.exec("SET client_min_messages = warning");
  const pg::Result result(PQexec(connection.get(), start_command(options, connection.server_version()).c_str()));
  if (result.status() != PGRES_COPY_BOTH) throw stream_error(connection, result.get(), options.slot);
}

}  // namespace pgbaton::source
