// Between the files of this module.
#pragma once
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/switchover/switchover.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pgbaton::switchover {

// Runs the steps of a report: times each, tells of it, and leaves the name of the one that failed behind.
class Steps {
 public:
  Steps(const Options& options, Report& report) : options_(options), report_(report) {}
  // `work` may return a note.
  void run(const std::string& name, bool in_pause, const std::function<std::string()>& work);
  void add(Step step);

 private:
  const Options& options_;
  Report& report_;
};

// The replica, copied: Error(usage) otherwise.
state::Replica load_replica(state::Store& store, const Options& options);

// What the preflight found; throws Error(preflight) naming the blockers.
void require_possible(const std::vector<snapshot::Finding>& findings, bool reversed);

// Rows of each table, on both sides.
struct Count {
  QualifiedName table;
  std::uint64_t bytes = 0;
};
std::vector<Count> counted_tables(const Options& options, state::Store& store, const state::Replica& replica,
                                  pg::Control& source);
struct Counted {
  std::int64_t tables = 0, rows = 0;
  std::int64_t left_out = 0;  // for which there was no time
};
// At a cut of both sides while both are live. Error(differences) names the first table with another number of rows.
Counted count_at_cut(const Options& options, const std::vector<Count>& tables, const std::stop_token& stop);
// While nothing moves: smallest first, as many as fit into the limit.
Counted count_at_rest(const Options& options, const std::vector<Count>& tables);

// From here on the replica's tables on the target take no writes but ours: the application must not find both sides
// open.
void close_target(const Options& options, pg::Control& source, pg::Control& target, const std::stop_token& stop);
// Whether that is a fence which closes a target of the replica: of an attempt, or of the former source it was.
bool closes_target(const std::optional<std::string>& about, const std::string& replica);
// ANALYZE and pg_prewarm, as far as they are wanted and there.
void warm(const Settings& settings, pg::Control& target, const std::vector<state::TableState>& tables);

// Where neither side has a replica any more: an earlier run did everything.
bool done_before(const Options& options);

// The step, and what is known of the switchover, for commands of the user.
struct Facts {
  std::string step, state;  // state: "source" or "target": who may write
  Lsn barrier_lsn;
  state::Replica replica;
  bool readers_on_target = false;  // of the replica: where they are, or are to be sent
};
// Nothing happens without a command. Error(failed) when it ends with another code than 0.
void run_hook(const std::string& setting, const std::string& command, const Options& options, const Facts& facts,
              const std::stop_token& stop);

// By its PgBouncer and by hook-readers: to where the facts say. Recorded on the target, before or after.
void send_readers(const Options& options, pg::Control& target, const Facts& facts, const std::stop_token& stop);

// A text that differs when tables or columns of the source do: DDL is not fenced.
std::string shape_of(pg::Control& source);

// What the application has on the source and would not find on the target: tables and rows that are not carried.
// Blockers, but for what the settings allow. Compares tables of which only inserts are carried, if they saw more.
std::vector<snapshot::Finding> look_left_behind(const Options& options, pg::Control& source, pg::Control& target,
                                                const state::Replica& replica, const std::stop_token& stop);
bool may_stay_behind(const Options& options, const QualifiedName& table);
// Of such tables inserts alone are carried: they are not compared. For verify: full.
verify::Options without_unsent(const Options& options, const std::vector<state::TableState>& tables);
// UPDATEs and DELETEs that the source counted on such tables, without those that may differ.
std::map<QualifiedName, std::int64_t> count_unsent(const Options& options, pg::Control& source,
                                                   const std::vector<state::TableState>& tables);

// Why there can be no way back, and what it will not carry. Empty when everything is well.
std::vector<snapshot::Finding> look_at_way_back(const Options& options, pg::Control& source, pg::Control& target,
                                                const std::vector<state::TableState>& tables);
inline constexpr std::string_view kNoWayBack = "way_back.none";  // id of a finding

// The transaction that opens the target: guards and fence off, the attempt flipped.
// `from_lsn`: where the way back begins; 0 none. `before_commit` may throw: nothing has happened then.
void flip(pg::Control& target, const state::Replica& replica, std::int64_t attempt, Lsn barrier_lsn, Lsn from_lsn,
          const std::function<void()>& before_commit);

// Sequences of the target that are not far enough beyond the source's by now; returns how many were looked at.
std::string bring_sequences(pg::Control& source, pg::Control& target, std::int64_t gap);

// Of the schema comments of the fences.
std::string source_about(const std::string& replica, const std::string& what);
std::string target_about(const std::string& replica);
inline constexpr std::string_view kSwitchedOver = "switched over";
// "switched over to database x of system 123".
std::string switched_to(pg::Control& target);

}  // namespace pgbaton::switchover
