// Every metric there is. What is not known is left out: a number that says nothing would be believed.
#include <pgbaton/state/switchover.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>

#include "exposition.hpp"
#include "monitor_render.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

// Of a database with a hundred thousand tables the largest ones are shown, and how many are not.
constexpr std::size_t kMostTables = 50;

double number(std::int64_t value) {
  return static_cast<double>(value);
}

void process_metrics(Exposition& out, const Seen& seen) {
  out.family("pgbaton_build_info", "gauge", "Version and command of this process.");
  out.sample(1, {{"version", PGBATON_VERSION}, {"command", seen.command}});
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return number(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  out.counter("process_cpu_seconds_total", "CPU time of this process, user and system.",
              seconds(used.ru_utime) + seconds(used.ru_stime));
  std::int64_t pages = 0, ignored = 0;
  if (std::ifstream file("/proc/self/statm"); file >> ignored >> pages)
    out.gauge("process_resident_memory_bytes", "Resident memory of this process.",
              number(pages) * number(sysconf(_SC_PAGESIZE)));
  out.gauge("process_start_time_seconds", "When --http of this process began, in seconds since 1970.", seen.started_at);
  out.counter("pgbaton_http_requests_total", "Requests that --http has answered.", number(seen.requests));
}

void look_metrics(Exposition& out, const Seen& seen) {
  if (!seen.looking || !seen.status_json) return;
  out.gauge("pgbaton_target_up", "Whether the last look at the target's state succeeded.",
            seen.fresh() != nullptr ? 1 : 0);
  if (!seen.fresh()) return;
  out.gauge("pgbaton_source_up", "Whether the source answered at the last look.",
            seen.fresh()->source_problem.empty() ? 1 : 0);
  out.gauge("pgbaton_look_timestamp_seconds",
            "When the servers were last looked at with success, in seconds since 1970; what they tell is of then.",
            seen.report_at);
  out.gauge("pgbaton_look_duration_seconds", "How long that took.", seen.look_seconds);
}

// Of a switchover or a rebuild. A step may come again, as `catch-up` does.
void course_metrics(Exposition& out, const Seen& seen) {
  if (!seen.course || seen.course->look.steps.empty()) return;
  const auto& look = seen.course->look;
  std::map<std::string_view, std::pair<double, bool>> steps;
  const auto now = Clock::now();
  for (const auto& step : look.steps) {
    auto& [seconds, running] = steps[step.name];
    seconds += std::chrono::duration<double>(step.ended.value_or(now) - step.begun).count();
    running = seen.course->running && !step.ended;
  }
  out.family("pgbaton_step_running", "gauge",
             "Steps of this switchover or rebuild that have begun: 1 for the one that is under way.");
  for (const auto& [name, step] : steps) out.sample(step.second ? 1 : 0, {{"step", name}});
  out.family("pgbaton_step_duration_seconds", "gauge", "How long each of them took, or has taken so far.");
  for (const auto& [name, step] : steps) out.sample(step.first, {{"step", name}});
  if (look.pause) {
    out.gauge("pgbaton_pause_duration_seconds", "How long writers had to wait for the switchover, so far.",
              static_cast<double>(look.pause->count()) / 1000);
    out.gauge("pgbaton_pausing", "Whether they wait now.", look.pausing ? 1 : 0);
  }
  const auto generation = look.facts.find("generation");
  if (generation != look.facts.end())
    out.gauge("pgbaton_rebuild_generation", "Number of the generation that this rebuild makes or brings back.",
              std::strtod(generation->second.c_str(), nullptr));
}

void copy_metrics(Exposition& out, const Seen& seen) {
  const auto* report = seen.fresh();
  if (report != nullptr && report->replica) {
    out.gauge("pgbaton_copy_tables", "Tables to be copied.", number(report->tables_total()));
    out.gauge("pgbaton_copy_tables_copied", "Tables whose rows are committed on the target.",
              number(report->tables_copied()));
  }
  const auto point = [&](auto live, double reported) {
    return seen.copy && seen.copy->running ? static_cast<double>(live) : reported;
  };
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    if (value >= 0) out.gauge(name, help, value);
  };
  if (seen.copied_since()) report = nullptr;
  const LiveCopy none;
  const auto& copy = seen.copy ? *seen.copy : none;
  const auto reported = [&](std::string_view name) { return report != nullptr ? report->reported(name) : -1; };
  gauge("pgbaton_copy_left_bytes", "Lag of the copy: what is not copied yet, by size on the source.",
        point(std::max<std::int64_t>(copy.bytes_total - copy.pace.size_copied, 0),
              report != nullptr ? number(report->copy_left_bytes()) : -1));
  gauge("pgbaton_copy_left_seconds", "Lag of the copy: the time that takes at the present rate.",
        point(copy.pace.seconds_left, report != nullptr ? report->copy_left_seconds() : -1));
  gauge("pgbaton_copy_rate_bytes_per_second", "How fast rows are copied.",
        point(copy.pace.bytes_per_second, reported("copy_bytes_per_second")));
  gauge("pgbaton_copy_rate_rows_per_second", "How fast rows are copied.",
        point(copy.pace.rows_per_second, reported("copy_rows_per_second")));
  if (!seen.copy) return;
  out.counter("pgbaton_copy_rows_total", "Rows copied by this process.", number(copy.rows));
  out.counter("pgbaton_copy_bytes_total", "Bytes that COPY carried in this process.", number(copy.bytes));
  out.gauge("pgbaton_copy_tables_indexed", "Tables with indexes and constraints, in this run.",
            number(copy.tables_indexed));
}

void position_metrics(Exposition& out, const StatusReport* report, const stream::StreamStatus* live) {
  const auto known = [](const auto* from, auto lsn) { return from != nullptr ? lsn(*from) : Lsn{}; };
  const auto written = known(report, [](const auto& from) { return from.source_flush_lsn; });
  const auto progress = report != nullptr ? report->progress : state::Progress{};
  if (live == nullptr && !progress.applied_lsn && !written) return;
  out.family("pgbaton_lsn_bytes", "gauge",
             "Positions in the source's WAL, in bytes: source_flush is written there, received has reached us, applied "
             "is durable on the target, confirmed is what the slot was told.");
  const auto sample = [&](std::string_view name, Lsn lsn) {
    if (lsn) out.sample(static_cast<double>(lsn.value), {{"position", name}});
  };
  // Of a source that we are not connected to nobody knows how far it has come.
  sample("source_flush", live != nullptr && live->connected ? live->source_flush_lsn : written);
  sample("received", live != nullptr ? live->received_lsn : progress.received_lsn);
  sample("applied", live != nullptr ? live->applied_lsn : progress.applied_lsn);
  sample("confirmed", live != nullptr ? live->confirmed_lsn : progress.confirmed_lsn);
}

void lag_metrics(Exposition& out, const StatusReport* report, const stream::StreamStatus* live) {
  auto bytes = report != nullptr ? number(report->lag_bytes()) : -1;
  auto seconds = report != nullptr ? report->lag_seconds() : -1;
  if (live != nullptr) {
    bytes = live->source_flush_lsn > live->applied_lsn
                ? static_cast<double>(live->source_flush_lsn.value - live->applied_lsn.value)
                : 0;
    seconds = live->lag_seconds;
  }
  if (bytes >= 0)
    out.gauge("pgbaton_lag_bytes", "Lag of the stream: WAL of the source that is not durable on the target yet.",
              bytes);
  if (seconds >= 0)
    out.gauge("pgbaton_lag_seconds", "Lag of the stream: the age of the last applied change while more are on the way.",
              seconds);
}

void stream_metrics(Exposition& out, const Seen& seen) {
  const LiveStream* live = seen.stream && seen.stream->running ? &*seen.stream : nullptr;
  const auto* known = live != nullptr && live->status.source_flush_lsn ? &live->status : nullptr;
  const bool connected = live != nullptr && live->status.connected;
  const auto* report = seen.fresh() != nullptr && seen.fresh()->replica ? seen.fresh() : nullptr;
  position_metrics(out, report, known);
  if (live == nullptr || connected) lag_metrics(out, report, known);
  const auto rate = [&](std::string_view name, std::string_view help, std::string_view reported, auto of_live) {
    const double value = live != nullptr ? of_live(*live) : (report != nullptr ? report->reported(reported) : -1);
    if (value >= 0) out.gauge(name, help, value);
  };
  rate("pgbaton_rate_transactions_per_second", "Source transactions that are applied.", "transactions_per_second",
       [](const auto& now) { return now.transactions_per_second; });
  rate("pgbaton_rate_changes_per_second", "Changes of rows that are applied.", "changes_per_second",
       [](const auto& now) { return now.changes_per_second; });
  rate("pgbaton_rate_applied_bytes_per_second", "WAL of the source that is applied.", "applied_bytes_per_second",
       [](const auto& now) { return now.applied_bytes_per_second; });
  rate("pgbaton_rate_source_bytes_per_second", "WAL that the source writes, of all its databases.",
       "source_bytes_per_second",
       [](const auto& now) { return now.status.connected ? now.source_bytes_per_second : -1; });
  if (!seen.stream) return;
  const auto& stream = *seen.stream;
  out.counter("pgbaton_stream_transactions_total", "Source transactions that this process has applied.",
              number(stream.status.transactions));
  out.counter("pgbaton_stream_changes_total", "Changes of rows that this process has applied.",
              number(stream.status.changes));
  // Of one that has ended, as a follower's while a switchover has the replica, nobody expects a connection.
  if (live != nullptr)
    out.gauge("pgbaton_stream_connected",
              "Whether the stream of this process has its connections; else it stands still.", connected ? 1 : 0);
  out.counter("pgbaton_stream_reconnects_total", "Times that the stream lost a connection, in this process.",
              number(stream.status.reconnects));
  if (live != nullptr)
    out.gauge("pgbaton_queue_bytes", "Changes that are received and not durable yet.",
              static_cast<double>(stream.status.queue_bytes));
  out.gauge("pgbaton_queue_limit_bytes", "Their ceiling, --memory.", static_cast<double>(seen.memory_bytes));
  out.family("pgbaton_apply_duration_seconds", "histogram",
             "Apply latency: how long a batch took on the target, from its first statement until it was committed.");
  out.histogram(stream.measures.batch_seconds);
  out.family("pgbaton_batch_changes", "histogram", "Batch sizes: changes of rows in one transaction of the target.");
  out.histogram(stream.measures.batch_changes);
  out.family("pgbaton_commit_delay_seconds", "histogram",
             "From a transaction's commit on the source until it was durable on the target, by both clocks.");
  out.histogram(stream.measures.delay_seconds);
}

void budget_metrics(Exposition& out, const StatusReport& report) {
  const auto held = report.held();
  out.gauge("pgbaton_wal_held_bytes", "WAL that all slots of the replica together keep on the source.",
            number(held.wal_bytes));
  out.gauge("pgbaton_wal_slots", "How many those are: also the reader's, those of a resync, temporary ones.",
            number(std::ssize(report.wal->slots)));
  if (held.limit.bytes > 0)
    out.gauge("pgbaton_wal_budget_bytes", "What they may keep: --wal-budget or max_slot_wal_keep_size, the smaller.",
              number(held.limit.bytes));
  if (const auto projected = projected_bytes(held.wal_bytes, held.written_per_second, held.copy_seconds_left);
      projected >= 0)
    out.gauge("pgbaton_wal_projected_bytes", "What they will keep when the copy is complete, at the present rates.",
              number(projected));
  out.gauge("pgbaton_xmin_age_transactions",
            "Over how many transactions the replica's slots and snapshots hold back vacuum on the source.",
            number(held.xmin_age));
}

void slot_metrics(Exposition& out, const Seen& seen) {
  const auto& report = *seen.fresh();
  const auto& replica = *report.replica;
  if (const auto& slot = report.slot) {
    const bool connected = seen.stream && seen.stream->running && seen.stream->status.connected;
    const auto held =
        connected && seen.stream->status.slot_held_bytes >= 0 ? seen.stream->status.slot_held_bytes : slot->held_bytes;
    out.gauge("pgbaton_slot_wal_held_bytes", "WAL that the replica's slot keeps on the source.", number(held));
    if (slot->safe_bytes >= 0)
      out.gauge("pgbaton_slot_wal_budget_bytes",
                "WAL that the slot may keep before the source drops it and the replica is lost "
                "(max_slot_wal_keep_size); absent without a limit.",
                number(slot->held_bytes + slot->safe_bytes));
    out.gauge("pgbaton_slot_active", "Whether somebody reads the slot.", slot->active ? 1 : 0);
  }
  const bool missing = !report.slot && report.source_problem.empty() && replica.phase > state::Phase::creating &&
                       replica.direction != state::kSwitched;
  const auto status = report.slot ? std::string_view(report.slot->wal_status) : missing ? "missing" : "";
  if (!status.empty())
    out.states("pgbaton_slot_wal_status",
               "pg_replication_slots.wal_status of the slot; missing: the replica has no slot any more.", "status",
               {"reserved", "extended", "unreserved", "lost", "missing"}, status);
  if (report.wal) budget_metrics(out, report);
  if (!report.source_problem.empty()) return;
  out.gauge(
      "pgbaton_snapshot_age_seconds",
      "Age of the oldest snapshot that this replica holds on the source, where vacuum keeps what it sees; 0: none.",
      report.snapshot ? report.snapshot->age_seconds : 0);
  out.gauge("pgbaton_snapshot_age_transactions", "The same in transaction ids.",
            report.snapshot ? number(report.snapshot->age_transactions) : 0);
  out.gauge("pgbaton_waiting_sessions", "Sessions of the source that wait behind locks of this replica.",
            number(std::ssize(report.waiting)));
}

void guard_metrics(Exposition& out, const StatusReport& report) {
  out.family("pgbaton_guard_tables", "gauge",
             "Streamed tables by the kind of guard that keeps older changes from newer rows.");
  for (const auto kind : {state::GuardKind::column, state::GuardKind::ledger, state::GuardKind::none})
    out.sample(number(std::ranges::count_if(report.tables,
                                            [&](const auto& table) {
                                              return table.guard == kind && table.phase != state::TablePhase::skipped;
                                            })),
               {{"kind", state::to_string(kind)}});
  out.gauge("pgbaton_guard_tombstones", "Guards of deleted rows, by the planner's estimate.",
            number(report.guards.tombstones));
  out.gauge("pgbaton_guard_tombstone_bytes", "What they take on the target.", number(report.guards.tombstone_bytes));
  std::int64_t entries = 0, bytes = 0;
  for (const auto& ledger : report.guards.ledgers) entries += ledger.entries, bytes += ledger.bytes;
  out.gauge("pgbaton_guard_ledger_entries", "Guards in ledgers, by the planner's estimate.", number(entries));
  out.gauge("pgbaton_guard_ledger_bytes", "What they take on the target.", number(bytes));
  out.gauge("pgbaton_guard_holds", "Who may still deliver older changes, so that guards are kept.",
            number(std::ssize(report.holds)));
}

void table_metrics(Exposition& out, const StatusReport& report) {
  std::vector<const state::TableState*> tables;
  for (const auto& table : report.tables) tables.push_back(&table);
  const auto size = [](const state::TableState* table) { return std::max(table->bytes, table->bytes_total); };
  const auto shown = std::min(tables.size(), kMostTables);
  std::ranges::partial_sort(tables, tables.begin() + static_cast<std::ptrdiff_t>(shown), std::ranges::greater(), size);
  out.gauge("pgbaton_tables_not_shown", "Tables that the metrics of single tables leave out: smaller than all shown.",
            number(std::ssize(report.tables)) - static_cast<double>(shown));
  tables.resize(shown);
  const auto family = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, "gauge", help);
    for (const auto* table : tables)
      out.sample(value(*table), {{"schema", table->name.schema}, {"table", table->name.name}});
  };
  family("pgbaton_table_size_bytes", "Size of a table on the source when it was planned.",
         [](const auto& table) { return number(table.bytes_total); });
  family("pgbaton_table_copied_bytes", "Bytes of a table that are copied and committed.",
         [](const auto& table) { return number(table.bytes); });
  family("pgbaton_table_copied", "Whether all rows of a table are copied and committed.",
         [](const auto& table) { return is_copied(table) ? 1.0 : 0.0; });
}

void verify_metrics(Exposition& out, const StatusReport& report) {
  if (!report.last_verify) return;
  out.gauge("pgbaton_verify_timestamp_seconds", "When both sides were last compared, in seconds since 1970.",
            unix_time(report.last_verify->at));
  for (const auto& [name, value] : last_verify_numbers(*report.last_verify)) {
    if (name == "differences") out.gauge("pgbaton_verify_differences", "Rows that differed then.", value);
    if (name == "tables") out.gauge("pgbaton_verify_tables", "Tables that were compared then.", value);
    if (name == "repaired") out.gauge("pgbaton_verify_repaired", "Rows that were put right then.", value);
  }
}

void replica_metrics(Exposition& out, const StatusReport& report) {
  const auto phase = report.replica ? report.replica->phase : state::Phase::none;
  out.states("pgbaton_replica_phase", "Where the replica stands.", "phase",
             {"none", "creating", "copying", "indexing", "streaming", "ready"}, to_string(phase));
  if (!report.replica) return;
  out.family("pgbaton_replica_readiness", "gauge", "Whether a step of readiness is reached; each is sticky.");
  out.sample(phase >= state::Phase::indexing ? 1 : 0, {{"step", "copied"}});
  out.sample(phase >= state::Phase::streaming ? 1 : 0, {{"step", "indexed"}});
  out.sample(phase >= state::Phase::ready ? 1 : 0, {{"step", "ready"}});
  out.gauge("pgbaton_writer_running", "Whether a process holds the replica and may write it.",
            report.writer_holds ? 1 : 0);
  const auto last = parse_last_error(report.replica->last_error);
  out.gauge("pgbaton_last_error_exit_code",
            "Exit code of the last run that failed, until the next one starts; 0: none.", last ? last->exit_code : 0);
  out.gauge("pgbaton_doubts", "What DDL may have left different and nobody has proven yet.",
            number(std::ssize(report.doubts)));
  out.counter("pgbaton_missing_rows_total", "Updates and deletes that met no row on the target, since the copy.",
              number(std::accumulate(report.tables.begin(), report.tables.end(), std::int64_t{0},
                                     [](std::int64_t sum, const auto& table) { return sum + table.missing_rows; })));
  out.gauge("pgbaton_resync_tables", "Tables that are being copied again, outside of the stream.",
            number(report.tables_detached));
}

}  // namespace

std::string metrics_text(const Seen& seen) {
  Exposition out({{"replica", seen.replica}});
  process_metrics(out, seen);
  look_metrics(out, seen);
  course_metrics(out, seen);
  const auto* report = seen.fresh();
  if (report != nullptr) replica_metrics(out, *report);
  copy_metrics(out, seen);
  stream_metrics(out, seen);
  if (report == nullptr || !report->replica) return out.take();
  slot_metrics(out, seen);
  guard_metrics(out, *report);
  table_metrics(out, *report);
  verify_metrics(out, *report);
  return out.take();
}

}  // namespace pgbaton::app
