// switchover: moves the application from the source of a replica to its target (README, "Upgrade runbook").
//
// The words: a *fence* refuses writes with a clear error (src/switchover/fence.hpp). The *barrier* is a position behind
// everything that was committed when the fence stood. The *flip* is one transaction on the target that opens it.
//
//   preflight   nothing is in the way                               the application works on the source
//   prepare     writer, live counts, sequences, statistics
//   way-back    slot and publications on the target
//   readers     sent to the target, where that is set up (--mode read-only: only this)
//   fence       writers of the source are refused                   ─┐
//   barrier     a position behind all that was committed              │
//   catch-up    the target reaches it                                 │ the pause
//   sequences   what went on meanwhile                                │
//   verify      both sides hold the same                              │
//   finish      what was deferred                                     │
//   flip        recorded, guards off, the target open               ─┘
//   turn        the replica that streams back
//   clean-up    slot, publications, state                           the application works on the target
//
// Which side may be written follows from one row of pgbaton.request on the target (pgbaton/state/switchover.hpp):
// before the flip the source, from its commit on the target. A watchdog process undoes the fence when the conductor
// dies before.
//
// With a way back (pgbaton/snapshot/way_back.hpp) a replica of the same name leads back afterwards: its state is in
// schema pgbaton of the former source, which its stream may write to through the fence. --rollback is this runbook on
// that replica.
#pragma once
#include <pgbaton/base/course.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/snapshot/check.hpp>
#include <pgbaton/stream/stream.hpp>
#include <pgbaton/switchover/settings.hpp>
#include <pgbaton/verify/verify.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::switchover {

struct Step {
  std::string name;
  Milliseconds time{0};
  bool in_pause = false;  // writers wait for it
  std::string note;       // for people
};

struct Options {
  stream::StreamOptions stream;  // source and target
  snapshot::CloneOptions clone;  // for what was deferred
  verify::Options verify;        // for verify: full
  ReplicaNames names{""};
  Settings settings;
  bool readers_only = false;  // --mode read-only
  bool reversed = false;  // --rollback: the two servers have exchanged their places, source is where the application is
  std::function<void(const Step&)> on_step{};  // when one has ended
  // For whoever watches; facts: barrier_lsn.
  std::shared_ptr<Course> course = std::make_shared<Course>();
};

struct Report {
  bool dry_run = false;
  // "possible", "refused"; "switched over"; of both "already switched over"; "readers on the target"
  std::string result;
  std::string failed_step;  // "" none
  Milliseconds pause{0};    // of the writers; of a dry run: what to expect
  Lsn barrier_lsn;
  std::vector<Step> steps;
  std::vector<snapshot::Finding> findings;
  std::string reverse;  // the way back: "" none
  std::optional<Error> failure;
  bool source_open = true;  // writers may use it
  bool flipped = false;     // the target is open, by this run or an earlier one that has not ended
};

// Everything that would make a switchover fail or lose something now. Changes nothing, but records new doubts, and
// compares tables of which only inserts are carried when they have seen more.
std::vector<snapshot::Finding> preflight(const Options& options, const std::stop_token& stop);

// Fences and ends nobody: preflight, then a barrier under the load as it is, how long the target takes to reach it, and
// what the other steps will take. Streams itself when no writer runs.
Report dry_run(const Options& options, const std::stop_token& stop);

// The runbook. What fails before the flip opens the source again and is told in the report (failure, failed_step); the
// target stays closed to all but pgbaton then. What fails after it leaves the application's side open: run it again.
Report run(const Options& options, const std::stop_token& stop);

// Whether the settings say how readers are sent.
bool has_readers(const Settings& settings);

// Whether writers of that server are fenced by anybody's switchover.
bool is_fenced(const pg::Endpoint& server);

// Takes the fence off both sides. Error(usage) when the target has been flipped, or cannot be asked, without `force`.
// Returns what was done, for people.
std::string undo(const Options& options, bool force, const std::stop_token& stop);

// For a replica that is to be dropped, under its lease: takes the fence off the source that an attempt of it has left
// there, lost with its watchdog before its flip. False when there is none, or a side cannot be asked: never that of one
// that has flipped, or of which the target does not know. Error(failed) when triggers, which let everything pass by
// then, are left on tables that are being read.
bool undo_lost(const pg::Endpoint& source, const pg::Endpoint& target, const std::string& replica,
               const Settings& settings, const std::stop_token& stop);

}  // namespace pgbaton::switchover
