// One row per option: the flag, the YAML key, the check and the help text all come from here.
#include <pgbaton/app/options.hpp>

#include <algorithm>
#include <array>

namespace pgbaton::app {

namespace {

using Filter = catalog::TableFilter;

constexpr unsigned kStreams = kClone | kFollow | kFinish | kVerify | kResync | kRebuild | kSwitchover;
constexpr unsigned kWrites = kClone | kFollow | kFinish | kDrop;

// No machine has more memory; no database is larger.
constexpr std::int64_t kTerabyte = std::int64_t{1} << 40, kPetabyte = std::int64_t{1} << 50;

// In the order of the help text; help.cpp puts a headline before some of them.
const std::array kOptions = {
    OptionSpec{"config", "FILE.yaml", &Options::config_file, kEverywhere, true, "",
               "options from a file: the same names as here, lists for repeatable ones"},
    OptionSpec{"source", "CONNINFO", &Options::source, kEverywhere, true, "",
               "the database to copy from, a libpq string or URI; also PGBATON_SOURCE"},
    OptionSpec{"target", "CONNINFO", &Options::target, kEverywhere, true, "",
               "the database to copy to, a libpq string or URI; also PGBATON_TARGET"},
    OptionSpec{"name", "NAME", &Options::name, kEverywhere, true, "",
               "the replica's name, [a-z0-9_]{1,30} without '__'; needed when a source or target has several"},

    OptionSpec{"follow", "", &Options::follow, kClone, false, "", "stay and keep the replica up to date"},
    OptionSpec{
        "until", "WHAT", &Options::until, kClone | kFollow, false, "caught-up",
        "caught-up: end when a source position is durably applied; clone reads it after the copy, follow at start"},
    OptionSpec{
        "until-lsn", "LSN", &Options::until_lsn, kFollow, false, "",
        "apply exactly the transactions whose end LSN is at or below this one, then end; exit 2 when the target is "
        "beyond it already"},
    OptionSpec{
        "dry-run", "", &Options::dry_run, kClone | kSwitchover, false, "",
        "print the plan and change nothing; switchover: what each step will take, measured under the load as it is"},
    OptionSpec{"restart", "", &Options::restart, kClone, false, "",
               "empty exactly the tables this replica recorded, and start anew"},
    OptionSpec{"force", "", &Options::force, kFinish | kSwitchover, false, "",
               "finish although the replica is not ready or cannot be drained; switchover --undo: also after the flip"},
    OptionSpec{"source-is-gone", "", &Options::source_is_gone, kDrop, false, "",
               "the source will never answer again: remove what is on the target, and look no further"},
    OptionSpec{
        "for", "WHAT", &Options::wait_for, kWait, false, "copied|indexed|caught-up|ready",
        "copied: all rows are committed; indexed: so are indexes and constraints; caught-up: the source position "
        "read at start is durable on the target; ready: caught up once after the copy, with little lag "
        "(default)"},
    OptionSpec{"timeout", "DURATION", &Options::timeout, kWait | kVerify, false, "",
               "give up after this long with exit code 5; default --give-up-after; verify: 60s for each cut, the "
               "comparison takes its time"},
    OptionSpec{"repair", "", &Options::repair, kVerify, false, "",
               "write the rows that differ as the source has them, then compare again"},
    OptionSpec{"where", "SQL", &Options::where, kVerify | kResync, false, "",
               "only rows for which this condition holds; names of functions and types with their schema"},
    OptionSpec{"add", "", &Options::add, kResync, false, "",
               "take in tables of the source that the replica does not have: made on the target, copied, streamed"},
    OptionSpec{"sample", "PERCENT", &Options::sample, kVerify, false, "",
               "only so many percent of the rows, other ones in every run", 1, 100},
    OptionSpec{"list", "", &Options::list, kRebuild, false, "", "show the generations, and do nothing"},
    OptionSpec{"rollback", "", &Options::rollback, kRebuild | kSwitchover, false, "",
               "rebuild: put the previous generation back under the live name; switchover: back to the former source"},
    OptionSpec{
        "mode", "HOW", &Options::mode, kRebuild | kSwitchover, false, "once|follow|full|read-only|undo",
        "rebuild: once: the copy is as of a stated position, no slot is left (default), or follow: stay, and stream "
        "into it; switchover: full (default), read-only: only the readers, or undo (the same as --undo): take the "
        "fence off the source when a switchover was lost with its machine"},
    OptionSpec{"verify", "", &Options::verify, kRebuild, false, "",
               "compare the new generation with the source before it may serve"},
    OptionSpec{"sql", "FILE", &Options::sql_files, kCheck | kRebuild, false, "",
               "run by psql in the new generation before it serves (masking, indexes, grants); repeatable"},
    OptionSpec{"before-swap", "COMMAND", &Options::before_swap, kCheck | kRebuild, false, "",
               "run by sh when the new generation is complete; when it fails, the live one stays"},
    OptionSpec{"after-swap", "COMMAND", &Options::after_swap, kCheck | kRebuild, false, "",
               "run by sh when the new generation serves; when it fails, that one serves all the same, and the exit "
               "code is 1"},
    OptionSpec{"keep", "N", &Options::keep, kRebuild, false, "",
               "earlier generations that stay after the swap; default 1", 0, 1000},
    OptionSpec{"readers", "WHAT", &Options::readers, kCheck | kRebuild, false, "terminate|wait",
               "sessions of the live database at the swap: end them (default), or wait until none is there"},
    OptionSpec{"swap-timeout", "DURATION", &Options::swap_timeout, kRebuild, false, "",
               "how long the swap may wait for sessions and prepared transactions; default 60s"},
    OptionSpec{"max-duration", "DURATION", &Options::max_duration, kRebuild, false, "",
               "give up with exit code 5 when the new generation is not complete after so long"},
    OptionSpec{"maintenance-db", "NAME", &Options::maintenance_db, kCheck | kRebuild | kDrop, true, "",
               "the database of the target's server in which rebuild keeps its registry; default postgres"},
    OptionSpec{"rebuild", "", &Options::rebuild, kCheck, false, "",
               "look at what rebuild needs of the target's server, instead of what clone needs of its database"},
    OptionSpec{"verbose", "", &Options::verbose, kRebuild, false, "",
               "log and progress on stderr and the result on stdout; without it a success is silent"},
    OptionSpec{"gap", "N", &Options::gap, kSequences, false, "",
               "set sequences N increments beyond the source's last value; default 0"},

    OptionSpec{"include-table", "NAME", &Filter::include_tables, kCheck | kClone | kVerify | kRebuild, true, "",
               "only these tables; schema.table by SQL identifier rules, * and ? match; repeatable"},
    OptionSpec{"exclude-table", "NAME", &Filter::exclude_tables, kCheck | kClone | kVerify | kRebuild, true, "",
               "not these tables; repeatable"},
    OptionSpec{"include-schema", "NAME", &Filter::include_schemas, kCheck | kClone | kVerify | kRebuild, true, "",
               "only tables of these schemas; repeatable"},
    OptionSpec{"exclude-schema", "NAME", &Filter::exclude_schemas, kCheck | kClone | kVerify | kRebuild, true, "",
               "no tables of these schemas; repeatable"},
    OptionSpec{"exclude-data", "NAME", &Filter::exclude_data, kCheck | kClone | kRebuild, true, "",
               "make these tables, but neither copy nor stream their rows; repeatable"},
    OptionSpec{"schema", "HOW", &Options::schema, kCheck | kClone, true, "full|none",
               "full: made by pg_dump and pg_restore (default); none: the target's tables exist and are empty"},
    OptionSpec{"keyless", "HOW", &Options::keyless, kCheck | kClone | kRebuild, true, "insert-only|full|exclude",
               "tables without a usable identity: publish only their INSERTs and TRUNCATEs (default), set REPLICA "
               "IDENTITY FULL on the source, or leave them out"},
    OptionSpec{"guard", "KIND", &Options::guard, kCheck | kClone | kRebuild, true, "column|none|ledger",
               "how a row remembers its newest change: column (default; a ledger where none can be added), ledger (a "
               "side table, "
               "the tables stay as they are) or none"},
    OptionSpec{"publication", "NAME", &Options::publication, kCheck | kClone | kRebuild, true, "",
               "use this publication, made by an administrator, and NAME__ins for tables without identity if there is "
               "one; they "
               "are verified and never dropped"},
    OptionSpec{"pg-dump", "PATH", &Options::pg_dump, kCheck | kClone | kFinish | kRebuild | kSwitchover, true, "",
               "the pg_dump to use; default the newest on this machine that is not older than the source"},
    OptionSpec{"no-owner", "", &Options::no_owner, kCheck | kClone | kRebuild, true, "",
               "do not restore who owns what"},
    OptionSpec{"no-privileges", "", &Options::no_privileges, kCheck | kClone | kRebuild, true, "",
               "do not restore GRANTs"},
    OptionSpec{"no-comments", "", &Options::no_comments, kCheck | kClone | kRebuild, true, "",
               "do not restore comments"},
    OptionSpec{"no-security-labels", "", &Options::no_security_labels, kCheck | kClone | kRebuild, true, "",
               "do not restore security labels"},
    OptionSpec{"no-tablespaces", "", &Options::no_tablespaces, kCheck | kClone | kRebuild, true, "",
               "make everything in the target's default tablespace"},
    OptionSpec{"no-settings", "", &Options::no_settings, kCheck | kClone | kRebuild, true, "",
               "leave out ALTER DATABASE … SET and ALTER ROLE … IN DATABASE … SET"},

    OptionSpec{"jobs", "N", &Options::jobs, kClone | kVerify | kResync | kRebuild | kSwitchover, true, "",
               "tables copied at a time, or connections that compare on each side; default 4", 1, 256},
    OptionSpec{"index-jobs", "N", &Options::index_jobs, kClone | kResync | kRebuild, true, "",
               "tables indexed at a time; default 2", 1, 256},
    OptionSpec{
        "split-above", "SIZE", &Options::split_above, kClone | kRebuild, true, "",
        "copy tables whose rows take more than this in parts of about this size, with --jobs above 1 and a source "
        "from 14 on; pays with idle cores on both servers; default: no table is split",
        1 << 16, kPetabyte},
    OptionSpec{"max-rate", "SIZE", &Options::max_rate, kClone | kVerify | kResync | kRebuild, true, "",
               "read at most so much per second from the source while copying, and from each side while comparing; "
               "default no limit",
               0, kPetabyte},
    OptionSpec{"memory", "SIZE", &Options::memory, kStreams, true, "",
               "ceiling for queued changes while streaming; default 256MB, at most 1TB", 1 << 20, kTerabyte},
    OptionSpec{"ready-lag", "SIZE", &Options::ready_lag, kStreams, true, "",
               "the replica becomes ready only while the target is less WAL than this behind the source; default 16MB",
               1 << 13, kPetabyte},
    OptionSpec{"reader", "HOW", &Options::reader, kStreams, true, "auto|walsender|peek",
               "how the slot is read: auto (default): a backlog of more than 64 MB of WAL in large steps by SQL, from "
               "a second, "
               "temporary slot, and near the end as a stream; always as a stream (walsender), or always by SQL (peek)"},
    OptionSpec{
        "tombstones", "WHEN", &Options::tombstones, kStreams, true, "auto|always",
        "whether deletes leave a tombstone on the target: where an older change can still arrive (auto, default), "
        "or always"},
    OptionSpec{"tombstone-retention", "SIZE|DURATION", &Options::tombstone_retention, kStreams, true, "",
               "keep tombstones and ledger entries for so much WAL or time beyond what is needed; default only what is "
               "needed"},
    OptionSpec{
        "drift", "HOW", &Options::drift, kStreams, true, "stop|add-columns",
        "a column that came on the source while streaming: stop before its first row, exit 8, with the statement "
        "that mends the target (default); or add it there, with type and default, and go on"},
    OptionSpec{"missing", "HOW", &Options::missing, kStreams, true, "stop|repair",
               "an update or delete whose row is not on the target: stop, exit 8 (default); or put the row right, from "
               "the change itself or from the source"},
    OptionSpec{"slot-wait", "DURATION", &Options::slot_wait, kClone | kResync | kRebuild, true, "",
               "how long creating the slot may wait for open transactions, and --keyless full for its lock on a table; "
               "default "
               "60s"},
    OptionSpec{"wal-budget", "SIZE", &Options::wal_budget, kClone | kFollow | kStatus | kRebuild, true, "",
               "WAL that the replica's slots may hold on the source; warnings at 50, 75 and 90 %, also of "
               "max_slot_wal_keep_size; default no budget of our own",
               1 << 20, kPetabyte},
    OptionSpec{"wal-policy", "WHAT", &Options::wal_policy, kClone | kFollow | kRebuild, true, "warn|stop|drop",
               "beyond --wal-budget: go on with a warning; stop, the slot stays (default); or stop and drop the slot, "
               "exit 4, before the source's disk is full"},
    OptionSpec{"slot-failover", "", &Options::slot_failover, kCheck | kClone | kRebuild, true, "",
               "17+: make the slot one that standbys keep a copy of, so that the stream goes on after a failover"},
    OptionSpec{"give-up-after", "DURATION", &Options::give_up_after, kStreams | kWait, true, "",
               "end with exit code 5 after so long without a connection that lasts, or, where an end is set, without "
               "any progress; default 10m, never for an open-ended stream"},
    OptionSpec{"on-failure", "WHAT", &Options::on_failure, kClone, true, "keep|drop",
               "after a failed copy: keep slot and state for the next run (default), or drop them"},
    OptionSpec{"take-over", "", &Options::take_over, kWrites | kResync, true, "",
               "end the process that holds the replica (also a hung one) and take its place"},
    OptionSpec{"appliers", "N", &Options::appliers, kStreams, true, "",
               "connections that apply changes; only 1 in this version", 1, 64},

    OptionSpec{"log-level", "LEVEL", &Options::log_level, kEverywhere, true, "debug|info|warning|error",
               "what is logged to stderr; default info"},
    OptionSpec{"log-format", "FORMAT", &Options::log_format, kEverywhere, true, "text|json",
               "lines for people (default) or one JSON object per line"},
    OptionSpec{
        "progress", "STYLE", &Options::progress, kStreams, true, "auto|plain|none",
        "progress on stderr: auto draws live bars on a terminal and writes a line every 10 s elsewhere; plain; none"},
    OptionSpec{"quiet", "", &Options::quiet, kEverywhere, true, "", "no progress, only warnings and errors on stderr"},
    OptionSpec{"events", "FILE", &Options::events_file, kStreams & ~(kRebuild | kSwitchover), true, "",
               "append a JSON line to FILE for each notable moment"},
    OptionSpec{"http", "ADDR:PORT", &Options::http, kStreams | kWait, true, "",
               "show how it goes: / is a page for people, /metrics for Prometheus, /status.json, /readyz, /healthz; a "
               "port alone, or localhost, is for this machine only"},
    OptionSpec{"json", "", &Options::json, kEverywhere, true, "", "one JSON document on stdout"},
};

bool same_name(std::string_view a, std::string_view b) {
  auto plain = [](char c) { return c == '_' ? '-' : c; };
  return std::ranges::equal(a, b, {}, plain, plain);
}

}  // namespace

std::span<const OptionSpec> option_table() {
  return kOptions;
}

const OptionSpec* find_option(std::string_view name) {
  auto found = std::ranges::find_if(kOptions, [&](const OptionSpec& spec) { return same_name(spec.name, name); });
  return found == kOptions.end() ? nullptr : &*found;
}

}  // namespace pgbaton::app
