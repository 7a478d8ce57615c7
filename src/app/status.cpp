// Lag in seconds. The applied position moves in two ways: with a transaction (then the source's commit time is known),
// and with a position that the source reports while nothing is in flight. Examples, source flush at 0/9000:
//
//   applied 0/9000                          0 s
//   applied 0/5000, received 0/8000         changes are in flight: the age of the last applied commit
//   applied 0/8f00, received 0/8f00         nothing in flight, other databases write WAL: the age of that position
#include "status.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/retention.hpp>

#include <algorithm>
#include <numeric>

#include "known.hpp"

namespace pgbaton::app {

namespace {

constexpr int kMostTroubles = 5;

// A table without usable identity is published for INSERT and TRUNCATE only: what else happens to it is missing here.
void load_missed_writes(pg::Control& source, StatusReport& report) {
  std::vector<std::uint32_t> oids;
  for (const auto& table : report.tables)
    if (table.inserts_only) oids.push_back(table.source_oid);
  report.missed =
      pg::control(Side::source, "reading table statistics", [&] { return catalog::load_write_counts(source, oids); });
}

void load_activity(pg::Control& source, StatusReport& report) {
  pg::control(Side::source, "looking at what our sessions hold", [&] {
    report.snapshot = catalog::load_held_snapshot(source, report.name);
    report.waiting = catalog::load_waiting(source, report.name);
  });
}

// After the state was read: the source's position is then never behind what is shown as applied.
std::unique_ptr<pg::Control> ask_source(const Context& context, StatusReport& report) {
  if (!context.has_source()) {
    report.source_problem = "--source was not given";
    return nullptr;
  }
  try {
    auto source = pg::open_control(context.source(), "status");
    report.source_flush_lsn = catalog::current_flush_lsn(*source, Side::source);
    const std::string& slot = report.replica ? report.replica->slot : context.names.base;
    report.slot = source::load_slot(*source, slot);
    report.resync_slot = source::load_slot(*source, resync::shadow_names(ReplicaNames(report.name)).base);
    report.wal = source::load_wal_hold(*source, {.base = context.names.base, .slot = slot});
    report.wal_limit = wal_limit(static_cast<std::int64_t>(context.options.wal_budget), report.wal->server_limit_bytes);
    load_missed_writes(*source, report);
    load_activity(*source, report);
    return source;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    report.source_problem = error.describe();
    return nullptr;
  }
}

// What the next start would stop at. A writer looks by itself, and moves what would be compared here.
void look_at_history(const Context& context, state::Store& store, pg::Control& source, StatusReport& report) {
  if (report.replica->phase <= state::Phase::creating || report.writer_holds) return;
  try {
    source::require_history(source, context.source(),
                            source::expected_history(*report.replica, report.progress, report.tables));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::boundary_lost && error.action() != Action::retry) throw;
    if (state::Lease::held(store.connection(), report.name)) return;  // one has started meanwhile
    report.history_problem = fmt::format("{}. {}", error.message(), error.hint());
  }
}

// Parts that are committed belong to their table.
void add_parts(StatusReport& report) {
  for (auto& table : report.tables) {
    const auto parts = report.parts.find(table.name);
    if (parts == report.parts.end() || is_copied(table)) continue;
    table.rows = parts->second.rows;
    table.bytes = parts->second.bytes;
  }
}

void load_state(state::Store& store, StatusReport& report) {
  report.tables = store.load_tables(*report.replica);
  report.parts = store.load_copied_parts(report.name);
  add_parts(report);
  report.writer = store.load_report(*report.replica);
  report.troubles = store.load_last_events(report.name, {"failed", "reconnect", "missing_row", "drift"}, kMostTroubles);
  report.writer_holds = state::Lease::held(store.connection(), report.name);
  report.tables_detached = std::ranges::count_if(report.tables, &state::TableState::detached);
  report.resync_runs = state::Lease::held(store.connection(), resync::shadow_names(ReplicaNames(report.name)).name);
  report.progress = store.load_progress(*report.replica);
  report.guards = store.load_guard_sizes(report.name);
  report.holds = store.load_holds(report.name);
  report.doubts = state::load_doubts(store.connection(), report.name);
  // Reported once a second, while the applied position is always up to date: what was applied was received.
  auto& progress = report.progress;
  if (progress.received_lsn) progress.received_lsn = std::max(progress.received_lsn, progress.applied_lsn);
}

void load_events(state::Store& store, StatusReport& report, int at_most) {
  static const std::vector<std::string> kKinds{"boundary",        "copied",         "indexed",
                                               "ready",           "drift",          "column_added",
                                               "column_dropped",  "doubt",          "partition_taken_in",
                                               "missing_row",     "reconnect",      "verify",
                                               "repair",          "resync_started", "resync_ended",
                                               "source_timeline", "history_mended", "wal_budget",
                                               "failed"};
  report.events = store.load_last_events(report.name, kKinds, at_most);
  if (auto last = store.load_last_events(report.name, {"verify"}, 1); !last.empty()) report.last_verify = last.front();
}

// Asking is harmless: without --name the only replica there is must be the one that is meant.
void look_for_the_only_one(const Context& context, state::Store& store, StatusReport& report) {
  const auto names = store.replica_names();
  if (names.empty()) return;
  if (!context.options.name.empty() || names.size() > 1) {
    log::warning("there is no replica named {} on this target; {}", report.name, known_replicas(store));
    return;
  }
  log::warning("there is no replica named {}: showing {}, the only one on this target (--name {})", report.name,
               names.front(), names.front());
  report.name = names.front();
  report.replica = store.load_replica(report.name);
}

std::vector<std::string> warnings(const StatusReport& report) {
  std::vector<std::string> result;
  const auto& slot = report.slot;
  if (!report.replica) {
    if (slot)
      result.push_back(fmt::format("slot {} exists on the source, but the target knows no such replica", slot->name));
    return result;
  }
  if (!report.history_problem.empty()) result.push_back(report.history_problem);
  if (const auto& broken = report.replica->history_break; broken && !report.source_problem.empty())
    result.push_back(fmt::format("{} (found at {}). {}", broken->message, broken->at, broken->hint));
  bool slot_expected = report.writer_holds && report.source_problem.empty();
  if (slot_expected && !slot)
    result.push_back(fmt::format("slot {} is gone: changes are lost, a new bootstrap is needed (clone --restart)",
                                 report.replica->slot));
  if (slot_expected && slot && !source::loss_reason(*slot).empty())
    result.push_back(fmt::format("slot {} is lost, {}: a new bootstrap is needed (clone --restart)", slot->name,
                                 source::loss_reason(*slot)));
  if (slot && slot->wal_status == "unreserved")
    result.push_back(fmt::format("slot {} is about to be lost: its WAL exceeds max_slot_wal_keep_size", slot->name));
  if (report.wal)
    for (auto& text : {wal_used_text(report.held()), wal_projected_text(report.held()), xmin_used_text(report.held())})
      if (!text.empty()) result.push_back(text);
  if (report.tables_detached > 0 && !report.resync_runs)
    result.push_back(fmt::format("a resync ended too early: {} not kept up to date until it is run again",
                                 counted(report.tables_detached, "table is", "tables are")));
  for (const auto& counts : report.missed) result.push_back(missed_writes_text(counts));
  return result;
}

}  // namespace

std::string_view phase_word(const state::TableState& table) {
  return table.detached ? "resync" : to_string(table.phase);
}

bool is_copied(const state::TableState& table) {
  return table.phase >= state::TablePhase::copied && table.phase != state::TablePhase::skipped;
}

Lsn StatusReport::largest_boundary() const {
  Lsn largest;
  for (const auto& table : tables) largest = std::max(largest, table.boundary);
  return largest;
}

Lsn StatusReport::oldest_deliverable_lsn() const {
  Lsn lsn = progress.applied_lsn;
  if (slot && slot->confirmed_flush_lsn) lsn = std::min(lsn, slot->confirmed_flush_lsn);
  return state::oldest_held(holds, lsn);
}

Held StatusReport::held() const {
  Held held;
  held.wal_bytes = wal->held_bytes;
  held.limit = wal_limit;
  held.xmin_age = std::max(wal->xmin_age, snapshot ? snapshot->age_transactions : 0);
  held.xmin_limit = wal->freeze_max_age;
  if (snapshot) held.snapshot_seconds = snapshot->age_seconds;
  if (replica && writer_holds && copy_left_bytes() > 0) {
    held.written_per_second = reported("source_bytes_per_second");
    held.copy_seconds_left = copy_left_seconds();
  }
  return held;
}

bool StatusReport::stream_is_lost() const {
  if (!history_problem.empty() || (replica && replica->history_break && !source_problem.empty())) return true;
  const bool expected = replica && replica->phase > state::Phase::creating && source_problem.empty();
  return expected && (!slot || !source::loss_reason(*slot).empty());
}

std::int64_t StatusReport::lag_bytes() const {
  if (!replica || stream_is_lost() || !source_flush_lsn || !progress.applied_lsn) return -1;
  if (progress.applied_lsn >= source_flush_lsn) return 0;
  return static_cast<std::int64_t>(source_flush_lsn.value - progress.applied_lsn.value);
}

double StatusReport::lag_seconds() const {
  if (lag_bytes() <= 0) return static_cast<double>(lag_bytes());
  bool in_flight = progress.received_lsn > progress.applied_lsn;
  double age =
      in_flight && progress.commit_age_seconds >= 0 ? progress.commit_age_seconds : progress.updated_age_seconds;
  return std::max(0.0, age);
}

std::int64_t StatusReport::tables_copied() const {
  return std::ranges::count_if(tables, is_copied);
}
std::int64_t StatusReport::tables_total() const {
  return std::ranges::count_if(tables, [](const auto& t) { return t.phase != state::TablePhase::skipped; });
}
std::int64_t StatusReport::bytes_done() const {
  return std::accumulate(tables.begin(), tables.end(), std::int64_t{0},
                         [](std::int64_t sum, const state::TableState& t) { return sum + t.bytes; });
}
std::int64_t StatusReport::bytes_total() const {
  return std::accumulate(tables.begin(), tables.end(), std::int64_t{0},
                         [](std::int64_t sum, const state::TableState& t) {
                           return sum + (is_copied(t) ? t.bytes : std::max(t.bytes, t.bytes_total));
                         });
}

namespace {

// Without the source: from another machine, the target alone tells how far the stream is behind.
void use_what_the_writer_saw(StatusReport& report) {
  if (report.source_flush_lsn || report.reported("reconnects") < 0) return;
  const auto seen = report.writer.values.find("source_flush");
  if (seen == report.writer.values.end()) return;
  report.source_flush_lsn = parse_lsn(seen->second).value_or(Lsn{});
}

// After a switchover that was given up the application finds the target closed; nothing else would say why.
void look_for_fences(pg::Control& target, pg::Control* source, StatusReport& report) {
  const ReplicaNames names(report.name);
  const auto attempt = switchover::load_attempt(target, report.name, report.replica);
  report.readers_on_target = attempt.readers_on_target;
  const bool reverse = report.replica && report.replica->direction == state::kReverse;
  const auto look = [&](pg::Control& server, Side side) {
    if (auto fence = switchover::find_fence(server, side, names, attempt, reverse)) report.fences.push_back(*fence);
  };
  if (source != nullptr) look(*source, Side::source);
  look(target, Side::target);
}

}  // namespace

StatusReport load_status(const Context& context, const StatusWish& wish) {
  StatusReport report;
  report.name = context.names.name;
  auto target = pg::open_control(context.target(), "status");
  state::Store store(*target);
  report.replica = store.load_replica(report.name);
  if (!report.replica && !wish.only_this_name) look_for_the_only_one(context, store, report);
  if (report.replica) load_state(store, report);
  if (report.replica && wish.events > 0) load_events(store, report, wish.events);
  const auto source = ask_source(context, report);
  if (report.replica && source) look_at_history(context, store, *source, report);
  look_for_fences(*target, source.get(), report);
  if (report.writer_holds && report.writer.age_seconds >= 0) use_what_the_writer_saw(report);
  report.warnings = warnings(report);
  return report;
}

}  // namespace pgbaton::app
