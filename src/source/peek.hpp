// A backlog, read by COPY (SELECT … FROM pg_logical_slot_peek_binary_changes(B, upto)) in steps (peek_steps.hpp).
//
//   copy A to B → [advance B] → ask how far the WAL goes → COPY up to X → advance B to the last end LSN → ask → …
//
// A peek has no start position: it begins at what B has confirmed, so B is where the reader is. Peeking up to X hands
// out every transaction with commit LSN < X, so X is the position after the step; a transaction that begins its commit
// record exactly at X may come along, and B is advanced to the end of the last one, never to X.
//
// The server decodes a whole step before it sends the first row. So an error that comes before any row is one between
// transactions: CannotPeek, if the walsender may get by without what was missing. All statements are sent and waited
// for here, none is executed while next() is not called; the socket is not read while the caller has no room.
#pragma once
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/source/open_reader.hpp>

#include <atomic>

#include "peek_steps.hpp"
#include "slot_keeper.hpp"
#include "start_replication.hpp"
#include "wakeup.hpp"

namespace pgbaton::source {

// Nothing is wrong with the replica; the walsender goes on from the same position.
struct CannotPeek : Error {
  CannotPeek(Error error, Milliseconds not_before) : Error(std::move(error)), pause(not_before) {}
  Milliseconds pause;  // before it is tried again
};

struct PeekOptions {
  ReaderOptions reader;
  Lsn position_lsn;   // where the reader before has ended: everything with commit LSN < it is handed out
  Lsn confirmed_lsn;  // durable on the target
  StepLimits limits;
  Milliseconds keep_interval{5000};
  bool only_way = false;  // no limit to what a step reads again
};

class PeekReader final : public ChangeReader {
 public:
  // Copies the slot; A may still be streamed from, at a border of transactions. Throws CannotPeek, Error(preflight)
  // when B's name is taken, and what open_walsender() throws.
  PeekReader(const pg::Endpoint& source, PeekOptions options);
  ~PeekReader() override;  // B is gone when it returns, or ends with its session
  PeekReader(const PeekReader&) = delete;
  PeekReader& operator=(const PeekReader&) = delete;

  ReadEvent next(Deadline deadline) override;
  void keep_alive() override {}  // the server waits for as long as it takes
  void confirm(Lsn durable_end_lsn) noexcept override { keeper_.confirm(durable_end_lsn); }
  void stop() noexcept override;
  void request_position() noexcept override;
  Lsn confirmed_lsn() const noexcept override { return keeper_.told_lsn(); }

  // Nothing of a step is still to be handed out.
  bool between_steps() const { return phase_ == Phase::arrived || phase_ == Phase::resting; }
  Lsn flush_lsn() const { return flush_lsn_; }  // as the last look at it showed
  std::uint64_t lag() const { return distance(position_lsn_, flush_lsn_); }
  // For a reader that takes A over: it will say itself what is confirmed.
  void hand_over() noexcept { last_word_ = false; }

 private:
  enum class Phase { arrived, advancing, asking, resting, starting, reading };

  void prepare(const pg::Endpoint& source);
  void require_no_failover_slot();
  Lsn copy_slot();
  void require_reachable() const;
  std::string copy_statement(Lsn upto_lsn) const;
  std::optional<ReadEvent> step(Deadline deadline);
  void arrive();
  std::optional<ReadEvent> plan(const pg::Result& answer);
  std::optional<ReadEvent> read_row(Deadline deadline);
  Position end_of_step();
  void send(const std::string& sql, Phase phase);
  bool answered(Deadline deadline);
  pg::Result take_result();
  [[noreturn]] void fail(const PGresult* result);
  bool wait(Deadline deadline);
  bool drain(Milliseconds limit) noexcept;
  static void take_notice(void* reader, const PGresult* notice) noexcept;
  PGconn* conn() const { return connection_.get(); }

  const PeekOptions options_;
  const std::string slot_, read_slot_;
  pg::Connection connection_;
  SlotKeeper keeper_;
  Wakeup wakeup_;
  StreamNotices notices_;

  Phase phase_ = Phase::arrived;
  Lsn position_lsn_;        // everything with commit LSN < it is handed out
  Lsn handed_end_lsn_;      // end of the last transaction that was, also by the reader before; 0: none
  Lsn read_confirmed_lsn_;  // where B is
  Lsn restart_lsn_, flush_lsn_, upto_lsn_;
  unsigned empty_steps_ = 0;
  bool yielded_ = false, in_transaction_ = false, copied_ = false, last_word_ = true;
  Clock::time_point rest_until_, last_ask_;
  std::unique_ptr<char, decltype(&PQfreemem)> message_{nullptr, &PQfreemem};
  std::atomic<bool> stop_{false}, request_{false};
};

}  // namespace pgbaton::source
