// verify: compares both sides at one cut while both are live, and repairs.
//
// The cut (stream/shared_cut.hpp) gives two snapshots that show exactly the same transactions, so a difference is one:
// there is no second look and no tolerance. The servers compute, for every table, row counts and order-free sums of
// 64-bit hashes in buckets of rows (by a hash of the key, so that no order of any collation matters), piece by piece of
// the heap; only the rows of buckets that differ are then looked at one by one. Left out are the guard column and
// generated columns, which each side computes itself. Columns are matched by name.
//
// A table that was rewritten on either side since the cut looks empty to the snapshot; its relfilenode tells, and it is
// compared at another cut. Tables that are not in phase streaming yet, unlogged, excluded or dropped ones are named as
// not compared.
//
// Repair does not race the stream, and needs no tombstones: the appliers rest at a new cut while the rows found are
// read again on both sides, written as the source has them at that cut, stamped with its LSN and committed under a lock
// on the progress row. What was deleted since stays deleted, what is newer is written newer. At most kRepairBatch rows
// at a time, so that a rest stays short; a table without a key is scanned once while the appliers rest. Afterwards the
// repaired tables are compared again; where triggers or foreign keys of the target act (session_replication_role cannot
// be set, or ENABLE ALWAYS), all of them, because what those change is not known. A table that cannot be repaired does
// not stop the others, and is tried again as long as differences become fewer (rows of another table may have stood in
// its way).
//
// Works with the writer in another process, or drives the stream itself for as long as it needs when the lease is free.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/stream/stream.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::verify {

struct Options {
  stream::StreamOptions stream;  // source and target, and how to stream when nobody else does
  ReplicaNames names{""};
  catalog::TableFilter filter;          // without choices: those that the replica was begun with hold
  std::string where;                    // SQL over a table's columns, for both sides; "" all rows
  int sample_percent = 100;             // of the rows, chosen by the hash of their key: other ones in every run
  int jobs = 4;                         // connections that compare, on each side
  std::uint64_t max_rate = 0;           // bytes of heap per second and side, over all jobs; 0 none
  std::optional<Milliseconds> timeout;  // of the whole
  bool repair = false;
  // What ended the stream that verify drove itself (before run() throws it), to be recorded; must not throw.
  std::function<void(const Error&)> on_stream_error{};
};

enum class Kind { missing, extra, different };  // as the target is: a row is missing there, is there in addition …
std::string_view to_string(Kind kind);

struct Difference {
  QualifiedName table;
  Kind kind = Kind::different;
  bool keyless = false;  // then `key` is the whole row
  std::vector<std::string> key_columns;
  std::vector<std::optional<std::string>> key;  // their values as text
  std::vector<std::string> columns;             // of a different row: those that differ
  std::int64_t count = 1;                       // equal rows of a table without key
  std::int64_t key_hash = 0;
};

struct TableResult {
  QualifiedName name;
  Lsn cut_lsn;
  std::int64_t source_rows = 0, target_rows = 0, bytes = 0;  // bytes: of the source's heap and TOAST
  std::int64_t differences = 0;
  Milliseconds time{0};  // spent on it by the connections of both sides together
};
struct NotCompared {
  QualifiedName name;
  std::string reason;
  bool pending = false;  // behind the others until a resync, which may have been interrupted, is over
};

struct Report {
  // What was in doubt (pgbaton/state/doubt.hpp) of the tables of the filter, and is not settled by this comparison.
  std::vector<state::Doubt> doubts;
  Lsn cut_lsn;  // of the first cut
  std::vector<TableResult> tables;
  std::vector<NotCompared> not_compared;
  std::int64_t differences_total = 0;
  std::vector<Difference> differences;  // at most kListed, by table
  std::vector<Error> not_repaired;      // one for each table that could not be, with its name, in the last try
  std::int64_t repaired = 0;            // rows
  std::int64_t remaining = 0;           // differences after the last comparison
  Milliseconds longest_pause{0};        // the appliers' longest rest
  int cuts = 0;
  Milliseconds time{0};
  std::int64_t rows() const;
  bool equal() const;  // nothing differs, in rows or in the catalogs
};

inline constexpr std::size_t kListed = 10'000;
inline constexpr std::size_t kRepairBatch = 500;

// Errors: usage without a copied replica, for a --where that cannot be read, or when the filter chooses no table of the
// replica; timed_out; rejected when the target has
// no such table or column (drift); failed when the writer died or a connection was lost: run it again.
Report run(const Options& options, const std::stop_token& stop);

// Compares what is in doubt (pgbaton/state/doubt.hpp) of the replica, if anything is, with `options` without their
// filter and repair. Returns what is not as on the source, or could not be proven to be; nothing of kind outside.
std::vector<state::Doubt> prove(Options options, const std::stop_token& stop);

}  // namespace pgbaton::verify
