// rebuild: a fresh database beside the one that serves, complete and checked, and then put in its place.
//
// A generation is a database on the target's server. The one that serves has the name that --target says (`shop`); all
// others are called <name>__g<id>. Which is which stands in pgbaton.generation of the maintenance database. Both are
// changed in one transaction, ALTER DATABASE … RENAME and the registry's rows alike, so there is no moment, and no
// crash, in which the name means nothing, half a database, or another one than the registry says:
//
//   begin; alter database shop__g8 rename to …; alter database shop rename to shop__g7; alter database … rename to
//   shop; update pgbaton.generation …; commit;
//
// Nobody may be connected to a database that is renamed. The rename locks it first, so that new connections wait for
// the end; those that are there are ended by a second session, or waited for (Readers). One that had to wait is told by
// the server that the database was just renamed, and finds the new one when it connects again.
//
// One run at a time per live database: a session-level advisory lock in the maintenance database, on the very
// connection that commits the swap. A row is written before the database is made and goes after it and everything on
// the source is removed, so the next run finds and removes whatever a killed one has left.
//
// With Mode::once the replica in the new generation is finished before it serves: no slot, publication, guard or state
// is left, and the copy is as of `position`. With Mode::follow it is kept, and the caller streams on into it.
#pragma once
#include <pgbaton/base/course.hpp>
#include <pgbaton/copy/progress.hpp>
#include <pgbaton/snapshot/check.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/stream/stream.hpp>
#include <pgbaton/verify/verify.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::rebuild {

enum class Mode { once, follow };
enum class Readers { terminate, wait };  // sessions of the live database at the swap

// Where generations live. `target` is as the user gave it: its database is the live one, and need not exist yet.
struct Place {
  pg::Endpoint source, target;
  std::string maintenance_db = "postgres";
  ReplicaNames names{""};
};

struct Options {
  Place place;
  snapshot::CloneOptions clone;  // endpoints and names are replaced by those of the generation, like the following two
  stream::StreamOptions stream;
  std::optional<verify::Options> verify;
  Mode mode = Mode::once;
  Readers readers = Readers::terminate;
  int keep = 1;                              // earlier generations that stay after the swap
  Milliseconds swap_timeout{60'000};         // for prepared transactions and sessions that do not go
  std::optional<Milliseconds> max_duration;  // until the swap begins
  std::vector<std::string> sql_files;        // run by psql in the new generation, in this order
  std::string before_swap, after_swap;       // commands for sh
  // For whoever watches; facts: generation, and database as it is called now, once it is there.
  std::shared_ptr<Course> course = std::make_shared<Course>();
};

struct Summary {
  std::string live, database;  // what the former live database is called now; "" when there was none
  std::int64_t id = 0;
  Lsn position;  // every source transaction with a smaller commit LSN is in it
  std::int64_t tables = 0, rows = 0, bytes = 0;
  bool verified = false;
  int ended_sessions = 0;
  Milliseconds swap_time{0};  // for which new connections had to wait
  Milliseconds time{0};
  std::vector<std::string> dropped;  // databases of older generations
};

// Errors before the swap leave the live database as it is, and what was made is removed at once as far as possible:
// held_elsewhere at once when another run holds the lock; preflight; timed_out for max_duration and the swap;
// differences; failed for SQL files and commands. An error after the swap says that the new generation serves.
Summary run(const Options& options, copy::CopyProgress& progress, const std::stop_token& stop);

// Puts the newest of the earlier generations back. Error(usage) when there is none.
Summary roll_back(const Options& options, const std::stop_token& stop);

struct Listed {
  std::int64_t id = 0;
  std::string database, state;  // "building", "live", "kept", "missing"
  bool built = true;            // false: it was there before the first rebuild
  std::int64_t bytes = 0;
  std::string source, started_at, live_at;  // ISO 8601 in UTC, "" when not (yet)
  double age_seconds = -1;                  // since it was complete
  Lsn position;
};
std::vector<Listed> list(const Place& place);  // newest first

// What runs that did not end have left; a running one is left alone and named. Nothing when no registry is reachable.
snapshot::RemovalReport sweep(const Place& place);

// What keeps a rebuild from making and renaming databases, and from running the user's files and commands.
std::vector<snapshot::Finding> check(const Options& options);
// The same beside what snapshot::run_check() finds on the source, and on the target's server about a database of it
// that is still to be made.
std::vector<snapshot::Finding> check_both_sides(const Options& options);

}  // namespace pgbaton::rebuild
