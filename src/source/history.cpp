// A slot's stream follows on what the target has if four things hold. Each is a fact that the source can be asked for:
//
//   the same cluster and database    system identifier, name
//   the same history up to there     on the same timeline: WAL and slot have not gone back. On another one: the history
//                                    file names ours as an ancestor, left at or above all that the target has.
//   the slot has kept the rest       not lost, and its confirmed_flush_lsn at or below the applied position; whoever
//                                    advances it, or makes another one, leaves it above
//   the publications were the same   publication_state.cpp
//
// Example of a failover. Applied is 0/5000. The standby was promoted at 0/5200: history file "1  0/5200". What both
// timelines share ends at 0/5200, so all that we have is in it; a slot that was synchronized stands at 0/4f00 and goes
// on. Had it been promoted at 0/4800, the target would have transactions that the source has not, and others would get
// their LSNs: lost, wherever the slot stands.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/store.hpp>

#include "start_replication.hpp"
#include "went_back.hpp"

namespace pgbaton::source {
namespace {

constexpr std::string_view kStartAnew = "A new bootstrap is needed: pgbaton clone --restart.";

Error lost_error(const ExpectedHistory& expected, const std::string& message, std::string_view hint) {
  return Error(ErrorKind::boundary_lost, message).side(Side::source).lsn(expected.applied_lsn).hint(hint);
}
[[noreturn]] void lost(const ExpectedHistory& expected, const std::string& message, std::string_view hint) {
  throw lost_error(expected, message, hint);
}
[[noreturn]] void went_back(const ExpectedHistory& expected, const std::string& message, std::string_view hint) {
  throw WentBack(lost_error(expected, message, hint));
}

void require_same_source(const catalog::Server& server, const ExpectedHistory& expected) {
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
  if (server.in_recovery) {
    throw Error(ErrorKind::failed, "the source is a standby (in recovery)")
        .side(Side::source)
        .action(Action::retry)
        .hint("Promote it, or give the primary's connection string.");
  }
}

std::vector<TimelineSwitch> load_timeline_history(const pg::Endpoint& endpoint, const catalog::Server& server) {
  auto connection = pg::Connection::open(endpoint, "history", pg::Session::replication);
  require_server(connection, server.system_identifier, server.timeline);
  const auto result = connection.exec(fmt::format("TIMELINE_HISTORY {}", server.timeline));
  if (result.rows() != 1 || result.columns() < 2) {
    throw Error(ErrorKind::failed, fmt::format("the source shows no history of its timeline {}", server.timeline))
        .side(Side::source);
  }
  return parse_timeline_history(result.value(0, 1));
}

void require_descendant(const pg::Endpoint& endpoint, const catalog::Server& server, const ExpectedHistory& expected) {
  if (server.timeline < expected.timeline) {
    went_back(
        expected,
        fmt::format("the source is on timeline {}, the replica is on {}: this is a former primary, or a restored "
                    "backup",
                    server.timeline, expected.timeline),
        fmt::format("Connect to the server that is on timeline {}, or build the replica from this one: pgbaton clone "
                    "--restart.",
                    expected.timeline));
  }
  const auto ancestors = load_timeline_history(endpoint, server);
  const auto ours = std::ranges::find(ancestors, expected.timeline, &TimelineSwitch::timeline);
  if (ours == ancestors.end()) {
    lost(expected,
         fmt::format("the source is on timeline {}, which does not come from timeline {} that the replica is on: a "
                     "standby was promoted, or a backup was restored",
                     server.timeline, expected.timeline),
         kStartAnew);
  }
  if (ours->switch_lsn < expected.seen_lsn) {
    lost(expected,
         fmt::format("the source is on timeline {}, which left timeline {} at {}, before {} that the target has: a "
                     "standby was promoted that lacks transactions, or a backup was restored",
                     server.timeline, expected.timeline, to_string(ours->switch_lsn), to_string(expected.seen_lsn)),
         "Go back to the server that has them, or begin anew: pgbaton clone --restart.");
  }
}

void require_same_timeline(pg::Control& source, const pg::Endpoint& endpoint, const catalog::Server& server,
                           const ExpectedHistory& expected) {
  if (expected.timeline != 0 && server.timeline != expected.timeline) require_descendant(endpoint, server, expected);
  const auto flush_lsn = catalog::current_flush_lsn(source, Side::source);
  if (flush_lsn < expected.seen_lsn) {
    went_back(
        expected,
        fmt::format("the source's WAL ends at {}, before {} which the target has applied: the source went back in time",
                    to_string(flush_lsn), to_string(expected.seen_lsn)),
        "It was restored from a backup, or lost its last WAL in a crash. A new bootstrap is needed: pgbaton clone "
        "--restart.");
  }
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

void require_ours(const SlotInfo& slot, const ExpectedHistory& expected) {
  if (slot.plugin == "pgoutput" && slot.database == expected.database) return;
  lost(expected,
       fmt::format("slot {} is not ours: plugin {}, database {}", quote_identifier(slot.name),
                   slot.plugin.empty() ? "none" : slot.plugin,
                   slot.database.empty() ? "none" : quote_identifier(slot.database)),
       "Someone made another slot of this name. Drop it, then start anew: pgbaton clone --restart.");
}

void require_kept(const SlotInfo& slot, const ExpectedHistory& expected) {
  const auto name = quote_identifier(slot.name);
  if (const auto reason = loss_reason(slot); !reason.empty()) {
    lost(expected, fmt::format("slot {} is lost: {}", name, reason), hint_of(slot));
  }
  if (slot.confirmed_flush_lsn > expected.applied_lsn) {
    lost(expected,
         fmt::format("slot {} stands at {}, beyond {} which the target has applied: it was advanced, read by someone "
                     "else, or made again, or the target went back in time",
                     name, to_string(slot.confirmed_flush_lsn), to_string(expected.applied_lsn)),
         kStartAnew);
  }
  if (slot.restart_lsn < expected.slot_restart_lsn) {
    went_back(expected,
              fmt::format("slot {} restarts at {}, and did at {} before: the source went back in time", name,
                          to_string(slot.restart_lsn), to_string(expected.slot_restart_lsn)),
              "It was restored from an older copy of its files. A new bootstrap is needed: pgbaton clone --restart.");
  }
}

// Whether the server that was found to be the past can have become this one.
bool is_another_server(const SlotInfo& slot, std::span<const TimelineSwitch> ancestors,
                       const state::HistoryBreak& found) {
  if (slot.confirmed_flush_lsn > found.slot_lsn) return true;
  const auto left = std::ranges::find(ancestors, found.timeline, &TimelineSwitch::timeline);
  return left != ancestors.end() && left->switch_lsn < found.flush_lsn;
}

void require_another_server(pg::Control& source, const pg::Endpoint& endpoint, const catalog::Server& server,
                            const ExpectedHistory& expected) {
  const auto slot = load_slot(source, expected.slot);
  std::vector<TimelineSwitch> ancestors;
  if (server.timeline > 1) ancestors = load_timeline_history(endpoint, server);
  const auto& found = *expected.history_break;
  if (slot && is_another_server(*slot, ancestors, found)) return;
  lost(expected,
       fmt::format("{} (found at {}; it has written since, and nothing shows that this is the source from before)",
                   found.message, found.at),
       found.hint);
}

// Where it and its slot stand: nobody but us moves the slot, and we do not.
void record_break(state::Store& store, pg::Control& source, const state::Replica& replica, const Error& error) {
  const auto slot = load_slot(source, replica.slot);
  state::HistoryBreak found;
  found.message = error.message();
  found.hint = error.hint();
  found.timeline = catalog::load_server(source, Side::source).timeline;
  found.flush_lsn = catalog::current_flush_lsn(source, Side::source);
  found.slot_lsn = slot ? slot->confirmed_flush_lsn : found.flush_lsn;
  store.store_history_break(replica, found);
}

std::uint32_t read_number(std::string_view& line) {
  std::uint32_t number = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
  line.remove_prefix(static_cast<std::size_t>(read.ptr - line.data()));
  return number;
}

}  // namespace

ExpectedHistory expected_history(const state::Replica& replica, const state::Progress& progress,
                                 std::span<const state::TableState> tables) {
  ExpectedHistory expected;
  expected.slot = replica.slot;
  expected.database = replica.source_database;
  expected.system_identifier = replica.source_system_id;
  expected.timeline = replica.source_timeline;
  expected.applied_lsn = expected.seen_lsn = progress.applied_lsn;
  for (const auto& table : tables) expected.seen_lsn = std::max(expected.seen_lsn, table.boundary);
  expected.slot_restart_lsn = progress.slot_restart_lsn;
  expected.publication_state = replica.publication_state;
  expected.history_break = replica.history_break;
  return expected;
}

std::uint32_t require_history(pg::Control& source, const pg::Endpoint& endpoint, const ExpectedHistory& expected) {
  const auto server = catalog::load_server(source, Side::source);
  require_same_source(server, expected);
  require_same_timeline(source, endpoint, server, expected);
  auto wanted = expected;
  if (wanted.database.empty()) wanted.database = server.database;
  // Another server's copy of the slot may lag behind.
  if (server.timeline != expected.timeline) wanted.slot_restart_lsn = Lsn{};
  require_slot(source, wanted);
  require_publications(source, wanted);
  if (expected.history_break) require_another_server(source, endpoint, server, expected);
  return server.timeline;
}

std::uint32_t require_history(state::Store& store, pg::Control& source, const pg::Endpoint& endpoint,
                              const state::Replica& replica, const ExpectedHistory& expected) {
  try {
    const auto timeline = require_history(source, endpoint, expected);
    if (!expected.history_break) return timeline;
    log::info("this source is not the one that had gone back in time: its slot or its timeline was never there");
    store.store_history_break(replica, std::nullopt);
    store.add_event(replica.name, "history_mended", "");
    return timeline;
  } catch (const WentBack& error) {
    record_break(store, source, replica, error);
    throw;
  }
}

void require_slot(pg::Control& source, const ExpectedHistory& expected) {
  const auto slot = load_slot(source, expected.slot);
  if (!slot) {
    lost(expected,
         fmt::format("slot {} does not exist on the source: it was dropped, or did not survive a failover",
                     quote_identifier(expected.slot)),
         kStartAnew);
  }
  require_ours(*slot, expected);
  require_kept(*slot, expected);
}

std::string loss_reason(const SlotInfo& slot) {
  const auto& reason = slot.invalidation_reason;
  if (reason.empty() && slot.wal_status != "lost") return "";
  if (reason == "idle_timeout") return "it was idle for longer than idle_replication_slot_timeout";
  if (reason == "rows_removed" || reason == "recovery_conflict") return "catalog rows that it needs were removed";
  if (reason == "wal_level_insufficient") return "the primary's wal_level was lowered";
  return "WAL that it needs was removed (max_slot_wal_keep_size)";
}

std::vector<TimelineSwitch> parse_timeline_history(std::string_view text) {
  std::vector<TimelineSwitch> switches;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty() || line.front() == '#') continue;
    const auto timeline = read_number(line);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const auto lsn = parse_lsn(line.substr(0, std::min(line.find_first_of(" \t\r"), line.size())));
    if (timeline == 0 || !lsn) {
      throw Error(ErrorKind::failed, "a line of the source's timeline history cannot be read").side(Side::source);
    }
    switches.push_back({timeline, *lsn});
  }
  return switches;
}

}  // namespace pgbaton::source
