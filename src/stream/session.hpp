// One connected life of a stream: from reading progress to a lost connection, a stop or the end asked for.
//
//   receiver (the calling thread)   reader → assembler → queue
//   applier (own thread)            queue → target transaction → confirm            apply_loop.hpp
//   housekeeper (own thread)        lease, positions for `status`, requests, readiness; every second
//
// The housekeeper has the lease's connection and the source's control connection for itself while the session runs.
// Whichever thread fails closes the queue with its error; the other two meet it there.
#pragma once
#include <pgbaton/source/history.hpp>
#include <pgbaton/stream/stream.hpp>

#include <thread>

#include "apply_loop.hpp"
#include "assembler.hpp"
#include "cut_service.hpp"
#include "progress_clock.hpp"
#include "retention.hpp"
#include "row_fetch.hpp"
#include "stream_report.hpp"

namespace pgbaton::stream {

struct SessionContext {
  const StreamOptions& options;
  state::Replica& replica;
  state::Lease& lease;
  const Until& until;
  Gate& gate;
  Positions& positions;
  source::ReaderMemory& reader_memory;
};

class Session {
 public:
  // Connects and compares slot and history with the replica (source::require_history) before anything is read.
  explicit Session(SessionContext context);
  ~Session();
  Ended run(const std::stop_token& stop);

 private:
  void follow_history(state::Store& store);
  void open_reader();
  void watch_publications();
  bool wants_position() const;
  void require_progress(bool moved);
  void receive(const std::stop_token& stop);
  bool push(const std::stop_token& stop);
  void finish_before(const std::stop_token& stop);
  void keep_house(const std::stop_token& done);
  void housekeeping_round(state::Store& store);
  void serve_requests(state::Store& store, const std::stop_token& done);
  void mark_ready_if_due(state::Store& store);
  bool in_doubt(state::Store& store);
  void tell_why_it_stops(state::Store& store, const std::exception_ptr& failure);
  void require_constraints() const;

  SessionContext context_;
  std::unique_ptr<pg::Control> source_, relations_connection_, drift_connection_;
  std::int64_t tables_version_ = 0;  // of tables_
  std::vector<state::TableState> tables_;
  source::ExpectedHistory history_;  // as it was when the session began
  std::string publication_digest_;
  Lsn seen_restart_lsn_;  // the slot's, a round ago
  Lsn start_lsn_;
  Lsn until_applied_, until_end_;
  bool told_of_doubt_ = false;
  Lsn ready_goal_;  // position observed after the copy was complete; durably reached, and little lag: ready
  StreamReport report_;
  std::unique_ptr<source::ChangeReader> reader_;
  std::unique_ptr<RelationMap> relations_;
  std::unique_ptr<Assembler> assembler_;
  BoundedQueue<Chunk> queue_;
  std::unique_ptr<Retention> retention_;
  std::unique_ptr<RowFetch> row_fetch_;  // missing: repair
  std::unique_ptr<apply::Applier> applier_;
  std::unique_ptr<ApplyLoop> loop_;
  ProgressClock progress_clock_;
  std::unique_ptr<CutService> cuts_;
  std::atomic<bool> stop_requested_{false};  // by a row in pgbaton.request
  std::vector<std::int64_t> stop_requests_;
};

}  // namespace pgbaton::stream
