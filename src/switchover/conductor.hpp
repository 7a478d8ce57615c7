// The conductor of one run of the runbook, in three files: conduct.cpp (the story, and what comes before the pause),
// pause.cpp (from the fence to the flip), after.cpp. Before the flip every error ends in give_up(), and the watchdog
// does the same for one that dies; after it there is no way but forward, and every step can be done again.
#pragma once
#include <pgbaton/base/time_limit.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/stream/own_writer.hpp>

#include <future>

#include "fence.hpp"
#include "parts.hpp"
#include "watchdog.hpp"

namespace pgbaton::switchover {

inline constexpr const char* kCleanUp = "clean-up";

class Conductor {
 public:
  Conductor(const Options& options, Report& report, const std::stop_token& stop)
      : options_(options),
        settings_(options.settings),
        report_(report),
        steps_(options, report),
        stop_(stop),
        target_(pg::open_control(options.stream.target, "switchover")),
        store_(*target_) {}
  void run();

 private:
  void be_the_only_one();
  void step(const std::string& name, bool in_pause, const std::function<std::string()>& work);
  void note(const std::string& name);
  // The user's; in the pause also that of its deadline, when the watchdog opens the source.
  std::stop_token stop() const { return pause_limit_ ? pause_limit_->token() : stop_; }
  // That deadline has ended what was going on.
  bool too_late() const { return pause_limit_ && pause_limit_->passed() && !stop_.stop_requested() && !flipped_; }
  // The one at the clean-up is called by it.
  void hook_of_step(const std::string& name);
  void hook(const std::string& setting, const std::string& command);
  void before_flip();
  // True when the source is open again.
  bool give_up();
  void readers_only();
  // They go back when this run, which has sent them, is given up.
  std::string readers();
  void readers_back() noexcept;
  void hook_given_up() noexcept;
  Facts facts() const;
  bool open_source();
  // The source was never closed: only for people, and for a follower that waits.
  void record_undone(const std::string& reason);
  std::string look();
  // Slot and publications on the target, before the pause: creating a slot waits for transactions.
  std::string make_way_back();
  void unmake_way_back();
  std::string prepare();
  Counted count_live();
  // It goes on with a try of a cut that nobody waits for any more, and serves requests one by one.
  void until_writer_is_free();
  // A follower is asked to stop: from here on the stream is ours.
  void become_writer();
  std::string fence();
  FenceRequest fence_request();
  // What the target is behind now, the writers would wait for.
  void come_near();
  void require_nothing_prepared();
  bool pauses() const { return !settings_.pgbouncer.empty() && !settings_.pgbouncer_pause.empty(); }
  // PAUSE waits for what is under way in the pooler; the fence refuses what it does not hold back.
  void pause_pgbouncer();
  void resume();
  // A cut for somebody else (`verify`, or one of ours that was given up) may be under way in the writer.
  std::int64_t reach_barrier();
  // The appliers rest, so nothing can be beyond the barrier when it is asked for.
  std::int64_t try_barrier();
  void await(std::future<stream::Cut>& asked, Milliseconds patience, const std::string& what);
  std::string barrier();
  std::string compare();
  std::string finish();
  // UPDATEs and DELETEs, since they were compared, of tables of which only inserts are carried.
  void require_nothing_unsent();
  // Nothing has come after the barrier: under a seal.
  void require_standstill();
  std::string open_target();
  void after_flip();
  // From here on the former source takes what pgbaton writes, and has a replica of its own.
  std::string turn(const state::WayBack& way_back);
  std::string switched_about();
  std::string send();
  // What was the replica goes; the fence of the source says what became of it.
  std::string clean_up();

  const Options& options_;
  const Settings& settings_;
  Report& report_;
  Steps steps_;
  const std::stop_token& stop_;
  std::unique_ptr<pg::Control> target_, source_;
  state::Store store_;
  state::Replica replica_;
  std::unique_ptr<stream::OwnWriter> writer_;
  std::optional<Watchdog> watchdog_;
  std::optional<TimeLimit> pause_limit_;
  std::optional<pg::Connection> fence_;
  std::vector<QualifiedName> fenced_;
  std::vector<Count> tables_;
  std::map<QualifiedName, std::int64_t> unsent_;  // before they were compared
  std::string shape_, about_;                     // about_: of the fence
  std::int64_t attempt_ = 0, changes_ = 0;
  Clock::time_point waiting_since_ = Clock::now();
  bool flipped_ = false, readers_on_target_ = false, sent_readers_ = false, way_back_ = false, counted_live_ = false;
};

std::string host_name();

}  // namespace pgbaton::switchover
