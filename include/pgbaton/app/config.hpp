// Options of the command line, environment and YAML file: flags win over environment, environment over file.
// An option is a field here and one row of the table in src/app/option_table.cpp; help, YAML key and validation come
// from that row.
#pragma once
#include <pgbaton/base/log.hpp>
#include <pgbaton/snapshot/clone.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pgbaton::app {

struct Options {
  std::string command;
  std::string config_file;
  std::string source, target, name;  // source and target may hold passwords: print pg::redact()

  // clone, follow, finish
  bool follow = false, dry_run = false, restart = false, take_over = false, force = false, source_is_gone = false;
  std::string until;      // "" or "caught-up"
  std::string until_lsn;  // "" or an LSN
  // wait
  std::string wait_for = "ready";
  std::optional<Milliseconds> timeout;
  // verify
  bool repair = false;
  std::string where;
  int sample = 100;
  std::vector<std::string> tables;  // resync: its arguments
  bool add = false;                 // resync
  // rebuild
  std::string mode, readers = "terminate", maintenance_db = "postgres", before_swap, after_swap;
  std::optional<Milliseconds> max_duration;
  Milliseconds swap_timeout{60'000};
  int keep = 1;
  std::vector<std::string> sql_files;
  bool verify = false, rollback = false, list = false, verbose = false;
  bool rebuild = false;  // check
  // sequences
  std::int64_t gap = 0;

  int jobs = 4, index_jobs = 2, appliers = 1;
  std::uint64_t split_above = 0, max_rate = 0, memory = 256u << 20, ready_lag = 16u << 20;
  std::uint64_t wal_budget = 0;  // 0: none but the server's own
  std::string wal_policy = "stop";
  Milliseconds slot_wait{60'000};
  bool slot_failover = false;
  std::optional<Milliseconds> give_up_after;
  std::string on_failure = "keep", guard = "column", schema = "full", keyless = "insert-only", publication, pg_dump;
  std::string tombstones = "auto", tombstone_retention;  // "" or "auto", a size, a duration
  std::string drift = "stop", missing = "stop", reader = "auto";
  bool no_owner = false, no_privileges = false, no_comments = false, no_security_labels = false;
  bool no_tablespaces = false, no_settings = false;
  catalog::TableFilter filter;

  std::string log_level = "info", log_format = "text", progress = "auto", events_file, http;
  bool quiet = false, json = false;

  // Where the file says it, "shop.yaml:7", of each option that neither a flag nor the environment overrides.
  std::map<std::string, std::string, std::less<>> file_lines;
};

}  // namespace pgbaton::app
