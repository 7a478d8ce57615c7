// Whether the stream of a slot still follows on what the target has. Every check names what happened: a gap that is not
// noticed here would be a silent loss.
#include <fmt/format.h>
#include <pgbaton/base/name.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/source/slot.hpp>

namespace pgbaton::source {
namespace {

constexpr std::string_view kStartAnew = "A new bootstrap is needed: pgbaton clone --restart.";

[[noreturn]] void lost(const ExpectedHistory& expected, const std::string& message, std::string_view hint) {
  throw Error(ErrorKind::boundary_lost, message).side(Side::source).lsn(expected.applied_lsn).hint(hint);
}

void require_same_source(const catalog::Server& server, Lsn flush_lsn, const ExpectedHistory& expected) {
  if (expected.system_identifier != 0 && server.system_identifier != 0 &&
      server.system_identifier != expected.system_identifier) {
    lost(expected,
         fmt::format(
             "the source is another cluster (system identifier {}) than the one this replica was built from ({})",
             server.system_identifier, expected.system_identifier),
         "Connect to the original source, or build the replica from this one: pgbaton clone --restart.");
  }
  if (!expected.database.empty() && server.database != expected.database) {
    lost(expected,
         fmt::format("this is database {}, but the replica was built from {}", quote_identifier(server.database),
                     quote_identifier(expected.database)),
         "Name the original database in the source's connection string.");
  }
  if (expected.timeline != 0 && server.timeline != 0 && server.timeline != expected.timeline) {
    lost(expected,
         fmt::format("the source is on timeline {}, the replica was built on {}: a standby was promoted, or a backup "
                     "was restored",
                     server.timeline, expected.timeline),
         kStartAnew);
  }
  if (flush_lsn < expected.applied_lsn) {
    lost(
        expected,
        fmt::format("the source's WAL ends at {}, before {} which the target has applied: the source went back in time",
                    to_string(flush_lsn), to_string(expected.applied_lsn)),
        kStartAnew);
  }
}

std::string reason_of(const SlotInfo& slot) {
  const auto& reason = slot.invalidation_reason;
  if (reason == "idle_timeout") return "it was idle for longer than idle_replication_slot_timeout";
  if (reason == "rows_removed" || reason == "recovery_conflict") return "catalog rows that it needs were removed";
  if (reason == "wal_level_insufficient") return "the primary's wal_level was lowered";
  return "WAL that it needs was removed (max_slot_wal_keep_size)";
}

std::string_view hint_of(const SlotInfo& slot) {
  const auto& reason = slot.invalidation_reason;
  if (reason == "idle_timeout") {
    return "Raise idle_replication_slot_timeout, then start anew: pgbaton clone --restart.";
  }
  if (reason.empty() || reason == "wal_removed") {
    return "Raise max_slot_wal_keep_size or keep the follower running, then start anew: pgbaton clone --restart.";
  }
  return kStartAnew;
}

void require_same_slot(const SlotInfo& slot, const ExpectedHistory& expected) {
  const auto name = quote_identifier(slot.name);
  if (slot.plugin != "pgoutput" || slot.database != expected.database) {
    lost(expected,
         fmt::format("slot {} is not ours: plugin {}, database {}", name, slot.plugin.empty() ? "none" : slot.plugin,
                     slot.database.empty() ? "none" : quote_identifier(slot.database)),
         "Someone made another slot of this name. Drop it, then start anew: pgbaton clone --restart.");
  }
  if (slot.wal_status == "lost" || !slot.invalidation_reason.empty()) {
    lost(expected, fmt::format("slot {} is lost: {}", name, reason_of(slot)), hint_of(slot));
  }
  if (slot.confirmed_flush_lsn > expected.applied_lsn) {
    lost(expected,
         fmt::format("slot {} stands at {}, beyond {} which the target has applied: it was advanced, read by someone "
                     "else, or made again",
                     name, to_string(slot.confirmed_flush_lsn), to_string(expected.applied_lsn)),
         kStartAnew);
  }
}

}  // namespace

void require_history(pg::Control& source, const ExpectedHistory& expected) {
  const auto server = catalog::load_server(source, Side::source);
  require_same_source(server, catalog::current_flush_lsn(source, Side::source), expected);
  const auto slot = load_slot(source, expected.slot);
  if (!slot) {
    lost(expected,
         fmt::format("slot {} does not exist on the source: it was dropped, or did not survive a failover",
                     quote_identifier(expected.slot)),
         kStartAnew);
  }
  auto wanted = expected;
  if (wanted.database.empty()) wanted.database = server.database;
  require_same_slot(*slot, wanted);
}

}  // namespace pgbaton::source
