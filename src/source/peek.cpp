#include "peek.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/base/size.hpp>
#include <pgbaton/wire/replication.hpp>

namespace pgbaton::source {
namespace {

// How often the end of the WAL is asked for when everything is read; the shorter one for a caller that waits.
constexpr Milliseconds kRest{100}, kUrgentRest{10};
constexpr Milliseconds kLongestWait{1000};
// Making the copy takes milliseconds, and waits for nothing but the source's disk.
constexpr Milliseconds kCopySlot{30'000};
constexpr Milliseconds kEnd{2000};
// Rights and limits are changed by people; restart_lsn moves every 15 s on a source that writes.
constexpr Milliseconds kTryAgainAfterError{300'000}, kTryAgainAfterReach{30'000},
    kTryAgainAfterFailoverSlot{3'600'000};  // ALTER_REPLICATION_SLOT can change it

// Without what this asks for the walsender gets by: room for the rows of a step, a further slot, a right. And somebody
// who cancels the statement does not want it to be repeated.
bool is_refusal(std::string_view sqlstate) {
  return sqlstate.starts_with("53") || sqlstate == "57014" || sqlstate == "42501" || sqlstate == "42883" ||
         sqlstate == "0A000";
}

Lsn lsn_of(const pg::Result& row, int column) {
  return require_lsn(row.value(0, column), "an LSN of the source");
}

}  // namespace

PeekReader::PeekReader(const pg::Endpoint& source, PeekOptions options)
    : options_(std::move(options)),
      slot_(options_.reader.slot),
      read_slot_(read_slot_name(slot_)),
      connection_(pg::Connection::open(source, "read")),
      keeper_(pg::Connection::open(source, "read-confirm"), slot_, options_.confirmed_lsn, options_.keep_interval),
      position_lsn_(options_.position_lsn),
      handed_end_lsn_(options_.position_lsn) {
  prepare(source);
}

void PeekReader::prepare(const pg::Endpoint& source) {
  const auto& reader = options_.reader;
  PQsetNoticeReceiver(conn(), &take_notice, this);
  require_sql_server(connection_, reader.system_identifier, reader.timeline);
  end_read_session(*pg::open_control(source, "reader"), slot_, source.replica_name);
  connection_.exec("SET client_min_messages = warning");
  require_no_failover_slot();
  if (connection_.server_version() >= 140000) {
    // A tool that was killed must not leave the source decoding a long step for nobody. Not on every platform.
    try {
      connection_.exec("SET client_connection_check_interval = '1s'");
    } catch (const Error& error) {
      log::debug("{}", error.describe());
    }
  }
  PGBATON_FAILPOINT("read_slot_before_copy");
  read_confirmed_lsn_ = copy_slot();
  PGBATON_FAILPOINT("read_slot_copied");
  const auto there = connection_.exec(
      "SELECT restart_lsn, pg_current_wal_flush_lsn() FROM pg_catalog.pg_replication_slots WHERE slot_name = " +
      quote_literal(read_slot_));
  if (there.rows() != 1) throw Error(ErrorKind::failed, "the copied slot is not there").side(Side::source);
  restart_lsn_ = lsn_of(there, 0);
  flush_lsn_ = lsn_of(there, 1);
  require_reachable();
  if (reader.once_held) reader.once_held(options_.confirmed_lsn);
}

// The source keeps the stream of a failover slot behind the standbys of synchronized_standby_slots, so that no
// promotion takes back what the target has. A copy of the slot is none (slotfuncs.c), and reads ahead of them.
void PeekReader::require_no_failover_slot() {
  if (connection_.server_version() < 170000) return;
  const auto slot = connection_.exec("SELECT failover FROM pg_catalog.pg_replication_slots WHERE slot_name = " +
                                     quote_literal(slot_));
  if (slot.rows() == 0 || slot.value(0, 0) != "t") return;
  throw CannotPeek(Error(ErrorKind::preflight, fmt::format("slot {} is one for failover: only the walsender keeps its "
                                                           "stream behind the standbys that would take over",
                                                           quote_identifier(slot_)))
                       .side(Side::source)
                       .hint("Leave --reader at auto."),
                   kTryAgainAfterFailoverSlot);
}

Lsn PeekReader::copy_slot() {
  try {
    const auto copied =
        connection_.exec_until(fmt::format("SELECT lsn FROM pg_catalog.pg_copy_logical_replication_slot({}, {}, true)",
                                           quote_literal(slot_), quote_literal(read_slot_)),
                               Deadline::after(kCopySlot), {});
    copied_ = true;
    return lsn_of(copied, 0);
  } catch (const Error& error) {
    if (is_refusal(error.sqlstate())) throw CannotPeek(error, kTryAgainAfterError);
    throw as_stream_error(error, slot_);
  }
}

void PeekReader::require_reachable() const {
  if (options_.only_way || flush_lsn_ <= position_lsn_) return;
  if (step_end(options_.limits, restart_lsn_, position_lsn_, flush_lsn_, empty_steps_)) return;
  throw CannotPeek(Error(ErrorKind::failed,
                         fmt::format("each step would read again from {}, {} before {}", to_string(restart_lsn_),
                                     format_size(distance(restart_lsn_, position_lsn_)), to_string(position_lsn_)))
                       .side(Side::source)
                       .action(Action::retry),
                   kTryAgainAfterReach);
}

void PeekReader::take_notice(void* reader, const PGresult* notice) noexcept {
  static_cast<PeekReader*>(reader)->notices_.take(notice);
}

ReadEvent PeekReader::next(Deadline deadline) {
  keeper_.begin();
  for (;;) {
    if (stop_.load(std::memory_order_relaxed)) return Stopped{};
    if (auto event = step(deadline)) return *event;
  }
}

// One move; nothing: go on.
std::optional<ReadEvent> PeekReader::step(Deadline deadline) {
  switch (phase_) {
    case Phase::arrived:
      keeper_.rethrow_failure();
      arrive();
      return std::nullopt;
    case Phase::advancing:
      if (!answered(deadline)) return Idle{true};
      take_result();
      read_confirmed_lsn_ = handed_end_lsn_;
      PGBATON_FAILPOINT("read_slot_advanced");
      phase_ = Phase::arrived;
      return std::nullopt;
    case Phase::asking:
      if (!answered(deadline)) return Idle{};
      return plan(take_result());
    case Phase::resting:
      if (Clock::now() >= rest_until_ || (request_.exchange(false) && Clock::now() - last_ask_ >= kUrgentRest)) {
        phase_ = Phase::arrived;
        return std::nullopt;
      }
      if (deadline.passed()) return Idle{};
      wait(Deadline::after(deadline.left(request_ ? kUrgentRest : kRest)));
      return std::nullopt;
    case Phase::starting:
      if (!answered(deadline)) return Idle{true};
      if (const pg::Result begun(PQgetResult(conn())); begun.status() != PGRES_COPY_OUT) fail(begun.get());
      PGBATON_FAILPOINT("peek_begun");
      phase_ = Phase::reading;
      return std::nullopt;
    case Phase::reading:
      return read_row(deadline);
  }
  return std::nullopt;
}

// Between two steps: B first goes to where we are, then the end of the WAL is asked for.
void PeekReader::arrive() {
  if (handed_end_lsn_ > read_confirmed_lsn_) {
    send(fmt::format("SELECT end_lsn FROM pg_catalog.pg_replication_slot_advance({}, {})", quote_literal(read_slot_),
                     quote_literal(to_string(handed_end_lsn_))),
         Phase::advancing);
    return;
  }
  last_ask_ = Clock::now();
  send("SELECT restart_lsn, pg_current_wal_flush_lsn() FROM pg_catalog.pg_replication_slots WHERE slot_name = " +
           quote_literal(read_slot_),
       Phase::asking);
}

std::optional<ReadEvent> PeekReader::plan(const pg::Result& answer) {
  if (answer.rows() != 1) throw Error(ErrorKind::failed, "the copied slot is gone").side(Side::source);
  restart_lsn_ = lsn_of(answer, 0);
  flush_lsn_ = lsn_of(answer, 1);
  if (flush_lsn_ <= position_lsn_) {
    rest_until_ = last_ask_ + kRest;
    phase_ = Phase::resting;
    return Position{position_lsn_};
  }
  require_reachable();
  auto limits = options_.limits;
  if (options_.only_way) limits.reach = UINT64_MAX;
  upto_lsn_ = step_end(limits, restart_lsn_, position_lsn_, flush_lsn_, empty_steps_).value_or(flush_lsn_);
  log::debug("peeking from {} up to {} of {}; decoding begins at {}", to_string(position_lsn_), to_string(upto_lsn_),
             to_string(flush_lsn_), to_string(restart_lsn_));
  yielded_ = false;
  send(copy_statement(upto_lsn_), Phase::starting);
  return std::nullopt;
}

std::string PeekReader::copy_statement(Lsn upto_lsn) const {
  std::string names;
  for (const auto& name : options_.reader.publications) names += (names.empty() ? "" : ",") + quote_identifier(name);
  return fmt::format(
      "COPY (SELECT lsn, data FROM pg_catalog.pg_logical_slot_peek_binary_changes({}, {}, NULL, 'proto_version', '1', "
      "'publication_names', {}{})) TO STDOUT (FORMAT binary)",
      quote_literal(read_slot_), quote_literal(to_string(upto_lsn)), quote_literal(names),
      connection_.server_version() >= 140000 ? ", 'messages', 'true'" : "");
}

std::optional<ReadEvent> PeekReader::read_row(Deadline deadline) {
  message_.reset();
  char* raw = nullptr;
  const int size = PQgetCopyData(conn(), &raw, 1);
  message_.reset(raw);
  notices_.require_publications();
  if (size == 0) {
    if (!wait(deadline)) return Idle{true};
    if (PQconsumeInput(conn()) == 0) fail(nullptr);
    return std::nullopt;
  }
  if (size < 0) return end_of_step();
  const auto row =
      wire::decode_peeked_row({reinterpret_cast<const std::byte*>(message_.get()), static_cast<std::size_t>(size)});
  if (!row) return std::nullopt;  // the end is behind it
  if (wire::is_begin(row->body)) {
    in_transaction_ = yielded_ = true;
  } else if (const auto end_lsn = wire::commit_end_lsn(row->body)) {
    in_transaction_ = false;
    handed_end_lsn_ = *end_lsn;
  }
  return Frame{row->message_lsn, row->body};
}

Position PeekReader::end_of_step() {
  for (;;) {
    const pg::Result result(PQgetResult(conn()));
    if (result.get() == nullptr) break;
    if (result.status() != PGRES_COMMAND_OK) fail(result.get());
  }
  notices_.require_publications();
  PGBATON_FAILPOINT("peek_step_read");
  empty_steps_ = yielded_ ? 0 : empty_steps_ + 1;
  position_lsn_ = std::max(upto_lsn_, handed_end_lsn_);
  phase_ = Phase::arrived;
  return {position_lsn_};
}

void PeekReader::send(const std::string& sql, Phase phase) {
  if (PQsendQuery(conn(), sql.c_str()) == 0) fail(nullptr);
  phase_ = phase;
}

// False when the deadline passes, or a stop was asked for, before the server's answer is there.
bool PeekReader::answered(Deadline deadline) {
  while (PQisBusy(conn()) != 0) {
    if (!wait(deadline)) return false;
    if (PQconsumeInput(conn()) == 0) fail(nullptr);
  }
  return true;
}

pg::Result PeekReader::take_result() {
  pg::Result first(PQgetResult(conn()));
  if (first.status() != PGRES_TUPLES_OK) fail(first.get());
  for (bool more = true; more;) more = pg::Result(PQgetResult(conn())).get() != nullptr;
  return first;
}

void PeekReader::fail(const PGresult* result) {
  const Error error = connection_.error(result, "");
  if (!in_transaction_ && is_refusal(error.sqlstate())) throw CannotPeek(error, kTryAgainAfterError);
  throw as_stream_error(error, slot_);
}

// True when there is something to read. False when the deadline has passed, or somebody wants to be heard.
bool PeekReader::wait(Deadline deadline) {
  pollfd watch[2] = {{PQsocket(conn()), POLLIN, 0}, {wakeup_.fd(), POLLIN, 0}};
  for (;;) {
    const int events = ::poll(watch, 2, static_cast<int>(deadline.left(kLongestWait).count()));
    if (events > 0 && watch[1].revents != 0) {
      wakeup_.clear();
      if (stop_ || phase_ == Phase::resting) return false;
    }
    if (events > 0 && watch[0].revents != 0) return true;
    if (deadline.passed()) return false;
    keeper_.rethrow_failure();
  }
}

void PeekReader::stop() noexcept {
  stop_ = true;
  wakeup_.wake();
}

void PeekReader::request_position() noexcept {
  request_ = true;
  wakeup_.wake();
}

PeekReader::~PeekReader() {
  keeper_.end(last_word_);
  if (!copied_ || PQstatus(conn()) != CONNECTION_OK) return;
  try {
    if (PQtransactionStatus(conn()) == PQTRANS_ACTIVE) {
      connection_.canceller().cancel();
      if (!drain(kEnd)) return;
    }
    // A statement that was cancelled has ended the slot with it.
    connection_.exec_until(
        fmt::format("SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE "
                    "slot_name = {} AND active_pid = pg_catalog.pg_backend_pid()",
                    quote_literal(read_slot_)),
        Deadline::after(kEnd), {});
  } catch (const std::exception& error) {
    log::debug("slot {} ends with its session: {}", read_slot_, error.what());
  }
}

// Reads to the end of the statement that was cancelled.
bool PeekReader::drain(Milliseconds limit) noexcept {
  const auto deadline = Deadline::after(limit);
  while (!deadline.passed()) {
    char* raw = nullptr;
    int size = 0;
    while ((size = PQgetCopyData(conn(), &raw, 1)) > 0) PQfreemem(raw);
    while (size < 0 && PQisBusy(conn()) == 0) {
      const pg::Result result(PQgetResult(conn()));
      if (result.get() == nullptr) return true;
      if (result.status() == PGRES_COPY_OUT) break;
    }
    pollfd watch{PQsocket(conn()), POLLIN, 0};
    if (::poll(&watch, 1, static_cast<int>(deadline.left(limit).count())) > 0 && PQconsumeInput(conn()) == 0)
      return false;
  }
  return false;
}

}  // namespace pgbaton::source
