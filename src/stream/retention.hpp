// The writer's part in the retention of tombstones and ledgers (pgbaton/state/retention.hpp): takes up holds, ends
// those that the stream has passed, and removes what no delivery can need any more, some thousand rows at a time.
//
// Taking up a hold: first the applier is told to leave tombstones for the table, then the source's position F is read.
// A window that was planned before knows nothing above F, so from F on no delete goes without a tombstone.
//
// Used by one thread at a time: load() before the applier starts, round() by the housekeeper.
#pragma once
#include <pgbaton/apply/tombstones.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/stream/stream.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace pgbaton::stream {

class Retention {
 public:
  Retention(const RetentionOptions& options, const state::Replica& replica,
            const std::vector<state::TableState>& tables)
      : options_(options),
        replica_(replica),
        tables_(tables),
        rule_(std::make_shared<apply::TombstoneRule>(options.always)) {}

  std::shared_ptr<const apply::TombstoneRule> rule() const { return rule_; }

  using FlushLsn = std::function<Lsn()>;  // asks the source now
  // Error(usage), with the numbers, when a configured retention is shorter than what a hold needs already.
  void load(state::Store& store, const FlushLsn& flush_lsn);
  // `stream_lsn`: below it the stream delivers nothing any more; 0: not known, nothing expires.
  void round(state::Store& store, const FlushLsn& flush_lsn, Lsn stream_lsn);

 private:
  void take_up(state::Store& store, const FlushLsn& flush_lsn);
  void refuse_undercut(Lsn flush_lsn) const;
  Lsn keep_configured(Lsn below_lsn, Lsn flush_lsn);

  const RetentionOptions options_;
  const state::Replica& replica_;
  const std::vector<state::TableState>& tables_;
  std::shared_ptr<apply::TombstoneRule> rule_;
  std::vector<state::Hold> holds_;
  struct Sample {
    Clock::time_point at;
    Lsn below_lsn;
  };
  std::deque<Sample> samples_;  // what could have expired when; for a retention by time
  Clock::time_point next_expiry_;
  Lsn expired_lsn_;
};

}  // namespace pgbaton::stream
