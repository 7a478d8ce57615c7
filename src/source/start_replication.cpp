#include "start_replication.hpp"

#include <fmt/format.h>

#include <charconv>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>

namespace pgbaton::source {
namespace {

constexpr const char* kStandbyAway =
    "Bring that standby back, or take its slot out of synchronized_standby_slots on the source and reload it.";

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

// The stream of a failover slot (17+) waits for the standbys of synchronized_standby_slots, and warns of one that is
// away (slot.c); a walsender that is told to end while it waits makes an error of the warning. Only the routine tells
// these from a slot or a publication that is lost: the SQLSTATE is the same, and texts are translated.
bool speaks_of_standbys(const PGresult* result) {
  const char* routine = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
  return routine != nullptr && std::string_view(routine) == "StandbySlotsHaveCaughtup";
}

Error publication_error(const std::string& what) {
  return Error(ErrorKind::boundary_lost, what)
      .side(Side::source)
      .hint("Changes were left out of the stream. A new bootstrap is needed: pgbaton clone --restart.");
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
Error as_stream_error(const Error& error, const std::string& slot) {
  const auto& state = error.sqlstate();
  if (state == "55006") {
    Error in_use = error;
    in_use.context("reading slot " + quote_identifier(slot));
    return std::move(in_use).hint(
        "If that is no connection of pgbaton that broke a moment ago, another client reads this slot and takes its "
        "changes away: look for the pid in pg_stat_replication on the source and stop it.");
  }
  const bool wal_removed = state == "58P01", invalid = state == "55000", undefined = state == "42704";
  Error described = error;
  described.context("reading slot " + quote_identifier(slot));
  if (!wal_removed && !invalid && !undefined) return described;
  return Error(ErrorKind::boundary_lost, described.message())
      .side(Side::source)
      .sqlstate(state)
      .hint(undefined
                ? "The slot or a publication of the replica is gone. A new bootstrap is needed: pgbaton clone "
                  "--restart."
                : "What the slot needs is gone on the source. A new bootstrap is needed: pgbaton clone --restart.");
}

Error stream_error(const pg::Connection& connection, const PGresult* result, const std::string& slot) {
  Error error = connection.error(result, "");
  if (result == nullptr || !speaks_of_standbys(result)) return as_stream_error(error, slot);
  error.action(Action::retry).context("reading slot " + quote_identifier(slot));
  return std::move(error).hint(kStandbyAway);
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

namespace {

void require_identity(std::string_view found_system, std::string_view found_timeline, std::uint64_t system_identifier,
                      std::uint32_t timeline) {
  const auto same = [](std::string_view found, auto expected) {
    return expected == 0 || found.empty() || found == std::to_string(expected);
  };
  if (same(found_system, system_identifier) && same(found_timeline, timeline)) return;
  throw Error(ErrorKind::failed, fmt::format("connections of one moment reached different servers: system identifier "
                                             "{} on timeline {}, and {} on timeline {}",
                                             system_identifier, timeline, found_system, found_timeline))
      .side(Side::source)
      .action(Action::retry)
      .hint("Let the connection string lead to the primary alone (target_session_attrs=read-write).");
}

}  // namespace

void require_server(pg::Connection& connection, std::uint64_t system_identifier, std::uint32_t timeline) {
  const auto identity = connection.exec("IDENTIFY_SYSTEM");
  if (identity.rows() != 1) throw Error(ErrorKind::failed, "IDENTIFY_SYSTEM gave nothing").side(Side::source);
  require_identity(identity.value(0, 0), identity.value(0, 1), system_identifier, timeline);
}

void require_sql_server(pg::Connection& connection, std::uint64_t system_identifier, std::uint32_t timeline) {
  const auto kind = connection.exec(
      "SELECT pg_is_in_recovery()::text, has_function_privilege('pg_control_system()', 'execute')::text");
  if (kind.value(0, 0) == "true") {
    throw Error(ErrorKind::failed, "the source is a standby (in recovery)")
        .side(Side::source)
        .action(Action::retry)
        .hint("Promote it, or give the primary's connection string.");
  }
  const auto timeline_now =
      connection.exec("SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int").text(0, 0);
  std::string system;  // not known without the right to ask
  if (kind.value(0, 1) == "true")
    system = connection.exec("SELECT system_identifier FROM pg_control_system()").text(0, 0);
  require_identity(system, timeline_now, system_identifier, timeline);
}

void StreamNotices::take(const PGresult* notice) noexcept {
  const char* state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
  const char* text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
  if (state == nullptr || text == nullptr) return;
  try {
    if (speaks_of_standbys(notice)) {  // again and again while it waits
      if (waits_for_ != text) log::warning("the source holds the stream back: {}. {}", text, kStandbyAway);
      waits_for_ = text;
      return;
    }
    log::debug("source: {}", text);
    if (std::string_view(state) == "55000") missing_publication_ = text;
  } catch (...) {  // out of memory for a log line; libpq's C code takes no exception
  }
}

void StreamNotices::require_publications() const {
  if (!missing_publication_.empty()) throw publication_error(missing_publication_);
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
