// What the change-by-change strategies share: the connection, where tables are, the counts, and errors that name the
// change.
#pragma once
#include "statement.hpp"
#include "targets.hpp"

#include <pgbaton/apply/change.hpp>
#include <pgbaton/apply/row_source.hpp>
#include <pgbaton/apply/tombstones.hpp>
#include <pgbaton/pg/connection.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace pgbaton::apply {

struct WriteCounts {
  std::int64_t rows_written = 0;
  std::int64_t stale = 0;
};

struct RowSession {
  pg::Connection& connection;
  Targets& targets;
  std::string replica;
  const TombstoneRule& tombstones;
  WriteCounts counts;
  std::optional<Lsn> expired_lsn;  // as read in this window
  RowSource* row_source = nullptr;
  bool repair_missing = false;
  std::int64_t missing_rows = 0;  // repaired so far in this session
  // Rows that were to be fetched and were gone on the source at this position: what comes below it for their keys meets
  // nothing, and rightly so. After a restart such a change stops the stream instead.
  std::map<std::string, Lsn> gone{};

  pg::Result run(const Change& change, const Statement& statement);
  // Rows touched; also counted as written.
  long long write(const Change& change, const Statement& statement);
};

}  // namespace pgbaton::apply
