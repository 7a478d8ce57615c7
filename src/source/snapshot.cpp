// Slot → holder → settled snapshot → re-export, and everything taken back when a step fails.
//
//   replication connection   CREATE_REPLICATION_SLOT … (SNAPSHOT 'export')      exports A, idle from now on
//   holder                   BEGIN; SET TRANSACTION SNAPSHOT 'A'; settle; pg_export_snapshot()    exports B
//   workers, pg_dump         SET TRANSACTION SNAPSHOT 'B'
//
// A dies with the next command of the replication connection or with a hiccup of it; B lives as long as the holder
// does, and the holder runs no statement any more that could fail.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <mutex>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/sqlstate.hpp>
#include <pgbaton/source/slot.hpp>
#include <thread>

#include "settle.hpp"

namespace pgbaton::source {
namespace {

constexpr Milliseconds kSettleLimit{10'000};
// Between attempts: writers with hundreds of savepoints need a moment to end.
constexpr Milliseconds kFirstRetryPause{50}, kLongestRetryPause{1000};
constexpr Milliseconds kBackendEndLimit{2000};
constexpr const char* kBegin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
constexpr std::size_t kBlockersNamed = 5;

struct Parts {
  pg::Connection replication, holder;
  Lsn consistent_point;
  std::string snapshot_id;
};

std::string set_snapshot(const std::string& snapshot_id) {
  return "SET TRANSACTION SNAPSHOT " + quote_literal(snapshot_id);
}

std::string create_command(const SlotRequest& request, int version_num) {
  return fmt::format("CREATE_REPLICATION_SLOT {}{} LOGICAL pgoutput {}", quote_identifier(request.name),
                     request.temporary ? " TEMPORARY" : "",
                     request.failover        ? "(SNAPSHOT 'export', FAILOVER true)"
                     : version_num >= 150000 ? "(SNAPSHOT 'export')"
                                             : "EXPORT_SNAPSHOT");
}

// Why an attempt gave nothing, where another one may.
enum class Failure { lock_timeout, snapshot_too_large, not_settled };

std::string_view explain(Failure failure) {
  switch (failure) {
    case Failure::lock_timeout:
      return "transactions that were open at its start did not end";
    case Failure::snapshot_too_large:
      return "its first snapshot was too large each time, because of transactions with very many savepoints";
    case Failure::not_settled:
      return "transactions that it counts as committed did not come to their end (a synchronous standby that does not "
             "answer keeps them)";
  }
  return "";
}

Error creation_error(const Error& error, const SlotRequest& request) {
  const auto& state = error.sqlstate();
  const auto message = fmt::format("creating slot {}: {}", quote_identifier(request.name), error.message());
  const auto blocker = [&](std::string_view hint) {
    return Error(ErrorKind::preflight, message).side(Side::source).sqlstate(state).hint(hint);
  };
  if (state == "42710") {
    return blocker("It is not ours, and is never adopted: drop it, or choose another --name.");
  }
  if (state == "53400") return blocker("Raise max_replication_slots, or drop slots that are not used any more.");
  if (state == "42501") return blocker("ALTER ROLE … REPLICATION, or connect as a role that has it.");
  if (state == "55000") return blocker("Set wal_level = logical and restart the source.");
  Error same = error;
  return same.context(fmt::format("creating slot {}", quote_identifier(request.name)));
}

// One try. Its destructor takes back what was made, unless keep() was called.
class Attempt {
 public:
  Attempt(const pg::Endpoint& source, const SlotRequest& request) : source_(source), request_(request) {}
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // nullopt when the snapshot is there; else why not, where another attempt may succeed.
  std::optional<Failure> run(Deadline deadline, const std::stop_token& stop);
  Parts keep();

 private:
  std::optional<Failure> create_slot(Deadline deadline, const std::stop_token& stop);
  std::optional<Failure> hold_snapshot(Deadline deadline, const std::stop_token& stop);
  bool drop_here() noexcept;
  void clean_up();

  const pg::Endpoint& source_;
  const SlotRequest& request_;
  std::optional<pg::Connection> replication_, holder_;
  bool created_ = false, kept_ = false;
  Lsn consistent_point_;
  std::string exported_id_, snapshot_id_;
};

std::optional<Failure> Attempt::run(Deadline deadline, const std::stop_token& stop) {
  if (const auto failure = create_slot(deadline, stop)) return failure;
  PGBATON_FAILPOINT("slot_created");
  if (const auto failure = hold_snapshot(deadline, stop)) return failure;
  PGBATON_FAILPOINT("snapshot_settled");
  return std::nullopt;
}

std::optional<Failure> Attempt::create_slot(Deadline deadline, const std::stop_token& stop) {
  replication_ = pg::Connection::open(source_, "slot", pg::Session::replication);
  // Ours is the deadline; this one is for the server, should we die meanwhile: a walsender that waits for a transaction
  // does not notice that its client is gone, and keeps WAL.
  const auto left = deadline.left(std::chrono::hours(24)) + Milliseconds(1000);
  replication_->exec(fmt::format("SET lock_timeout = {}", left.count()));
  try {
    const auto result =
        replication_->exec_until(create_command(request_, replication_->server_version()), deadline, stop);
    created_ = true;
    if (result.rows() != 1 || result.columns() < 3 || result.is_null(0, 2)) {
      throw Error(ErrorKind::failed, "CREATE_REPLICATION_SLOT exported no snapshot").side(Side::source);
    }
    consistent_point_ = require_lsn(result.value(0, 1), "the consistent point");
    exported_id_ = result.text(0, 2);
  } catch (const Error& error) {
    if (error.sqlstate() == "55P03") return Failure::lock_timeout;
    if (error.sqlstate() == "40001") return Failure::snapshot_too_large;
    throw creation_error(error, request_);
  }
  return std::nullopt;
}

std::optional<Failure> Attempt::hold_snapshot(Deadline deadline, const std::stop_token& stop) {
  holder_ = pg::Connection::open(source_, "holder");
  holder_->exec(kBegin);
  holder_->exec(set_snapshot(exported_id_));
  const auto started = Clock::now();
  const auto limit = std::max(deadline.left(kSettleLimit), Milliseconds(1000));
  if (!settle(*holder_, Deadline::after(limit), stop)) return Failure::not_settled;
  log::debug("snapshot {} settled in {}", exported_id_,
             format_duration(std::chrono::duration_cast<Milliseconds>(Clock::now() - started)));
  const auto result = holder_->exec("SELECT pg_export_snapshot()");
  if (result.rows() != 1) throw Error(ErrorKind::failed, "pg_export_snapshot() gave nothing").side(Side::source);
  snapshot_id_ = result.text(0, 0);
  return std::nullopt;
}

Parts Attempt::keep() {
  kept_ = true;
  return {std::move(*replication_), std::move(*holder_), consistent_point_, std::move(snapshot_id_)};
}

Attempt::~Attempt() {
  if (kept_ || !replication_) return;
  try {
    clean_up();
  } catch (const std::exception& error) {
    if (!created_ || request_.temporary) return;
    try {
      log::error("slot {} is left behind on the source: {}. Drop it with SELECT pg_drop_replication_slot({})",
                 quote_identifier(request_.name), error.what(), quote_literal(request_.name));
    } catch (...) {  // a destructor throws nothing, whatever the log does
    }
  }
}

bool Attempt::drop_here() noexcept {
  try {
    replication_->exec("DROP_REPLICATION_SLOT " + quote_identifier(request_.name));
    return true;
  } catch (...) {
    return false;
  }
}

void Attempt::clean_up() {
  holder_.reset();
  const bool dropped = !created_ || drop_here();
  const int walsender_pid = replication_->backend_pid();
  replication_.reset();
  const auto control = pg::open_control(source_, "clean-up");
  if (!dropped) drop_slot(*control, request_.name, true);
  // Nothing of ours shall be seen any more by whoever looks after the error.
  pg::control(Side::source, "waiting for the walsender's end", [&] {
    pqxx::nontransaction transaction(*control);
    const auto deadline = Deadline::after(kBackendEndLimit);
    while (!transaction.exec_params("select from pg_stat_activity where pid = $1", walsender_pid).empty() &&
           !deadline.passed()) {
      std::this_thread::sleep_for(Milliseconds(5));
    }
  });
}

std::string list_blockers(const std::vector<Blocker>& blockers) {
  std::string text;
  for (std::size_t i = 0; i < std::min(blockers.size(), kBlockersNamed); ++i) {
    text += (i == 0 ? "" : "; ") + describe(blockers[i]);
  }
  if (blockers.size() > kBlockersNamed) text += fmt::format("; and {} more", blockers.size() - kBlockersNamed);
  return text;
}

Error timed_out_error(const pg::Endpoint& source, const SlotRequest& request, std::string_view reason) {
  std::string blockers;
  try {
    const auto control = pg::open_control(source, "blockers");
    blockers = list_blockers(load_blockers(*control));
  } catch (const Error& error) {
    log::debug("blockers cannot be listed: {}", error.what());
  }
  auto message = fmt::format("slot {} could not be made within {}: {}", quote_identifier(request.name),
                             format_duration(request.wait), reason);
  if (!blockers.empty()) message += fmt::format(". Open now: {}", blockers);
  return Error(ErrorKind::timed_out, message)
      .side(Side::source)
      .hint(
          "End these transactions (prepared ones with COMMIT PREPARED or ROLLBACK PREPARED), or give more time with "
          "--slot-wait.");
}

}  // namespace

SlotSnapshot SlotSnapshot::create(const pg::Endpoint& source, const SlotRequest& request, const std::stop_token& stop) {
  const auto deadline = Deadline::after(request.wait);
  Backoff pause(kFirstRetryPause, kLongestRetryPause);
  auto reason = explain(Failure::lock_timeout);
  do {
    if (stop.stop_requested()) {
      throw Error(ErrorKind::failed, "interrupted").side(Side::source).hint("Run the same command again to go on.");
    }
    try {
      Attempt attempt(source, request);
      const auto failure = attempt.run(deadline, stop);
      if (!failure) {
        auto parts = attempt.keep();
        log::info("slot {}: consistent point {}, snapshot {}", quote_identifier(request.name),
                  to_string(parts.consistent_point), parts.snapshot_id);
        return {std::move(parts.replication), std::move(parts.holder), parts.consistent_point,
                std::move(parts.snapshot_id)};
      }
      reason = explain(*failure);
      log::debug("slot {}: {}; trying again", quote_identifier(request.name), reason);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::timed_out) break;
      throw;
    }
    sleep_for(std::min(pause.next(), deadline.left(kLongestRetryPause)), stop);
  } while (!deadline.passed());
  throw timed_out_error(source, request, reason);
}

// The holder must not run a statement, so its socket is looked at. What an idle server may send unasked (parameter
// changes, notices) is taken in by libpq; the end of the stream is what counts.
bool SlotSnapshot::alive() const {
  static std::mutex mutex;  // libpq's connection is for one thread at a time; nobody else uses this one
  const std::lock_guard lock(mutex);
  PGconn* c = holder_.get();
  constexpr int kMostReads = 16;
  for (int i = 0; i < kMostReads && PQstatus(c) == CONNECTION_OK; ++i) {
    pollfd watch{PQsocket(c), POLLIN, 0};
    if (::poll(&watch, 1, 0) <= 0) break;
    if (PQconsumeInput(c) == 0) return false;
    std::unique_ptr<PGnotify, decltype(&PQfreemem)> none(PQnotifies(c), &PQfreemem);
  }
  return PQstatus(c) == CONNECTION_OK;
}

pg::Connection open_snapshot_worker(const pg::Endpoint& source, const std::string& snapshot_id, std::string_view role) {
  auto connection = pg::Connection::open(source, role);
  connection.exec(kBegin);
  try {
    connection.exec(set_snapshot(snapshot_id));
  } catch (const Error& error) {
    if (!pg::is_snapshot_gone(error.sqlstate())) throw;
    throw Error(ErrorKind::failed, fmt::format("snapshot gone: {}", error.message()))
        .side(Side::source)
        .sqlstate(error.sqlstate())
        .action(Action::retry)
        .hint("The session that held the snapshot has ended; a new boundary is needed: run the same command again.");
  }
  return connection;
}

}  // namespace pgbaton::source
