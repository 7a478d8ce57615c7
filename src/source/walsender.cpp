// The walsender as a ChangeReader.
//
// Reading. The source sends every message by itself and wakes the reader for each; a reader that jumps at every wake-up
// makes the walsender half as fast as one that lets messages gather (measured: PERF.md A3). So while the stream is
// busy, a read is put off for a millisecond unless much is waiting already. A quiet stream is read at once.
//
// Telling the source. A status carries three positions:
//   flush, apply   the durable position from confirm(): all that the slot may forget. Never 0, since 0 would keep the
//                  slot where it is: it begins at start_lsn.
//   write          what has been received, as a keepalive said it; not what XLogData calls the server's end of WAL.
// It is sent when a third of wal_sender_timeout has passed, when the source asks, and when the durable position has
// moved and nothing is waiting to be read; while much is waiting, once a second.
//
// Publications. Where a publication is missing at some point of the WAL, servers up to 17 end the stream with an error;
// 18 leaves its tables out and only warns. Both are a gap: the warning is taken for the error that it was.
//
// Silence. A source that lives sends a keepalive when half of wal_sender_timeout has passed. If nothing comes for the
// whole of it, an answer is asked for; if none comes for as long again, the connection counts as lost. (A connection
// whose other end has vanished is found earlier: TCP gives up on unanswered status messages.)
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/source/walsender.hpp>
#include <pgbaton/wire/replication.hpp>
#include <thread>
#include <utility>

#include "start_replication.hpp"

namespace pgbaton::source {
namespace {

constexpr int kReceiveBufferBytes = 4 << 20;
// libpq reads about so much at a time; while as much is there, nothing is gained by waiting for more.
constexpr int kGulpBytes = 16 * 1024;
// A stream is busy after so many messages without a pause of so long. (Counted from pause to pause and not from read to
// read: an eager reader finds few messages each time, and would never learn that the stream is busy.)
constexpr int kBusyMessages = 16;
constexpr Milliseconds kQuietPause{3};
constexpr Milliseconds kGather{1};
// The clock is read once in so many messages.
constexpr int kMessagesPerClock = 64;
constexpr Milliseconds kLongestStatusInterval{10'000}, kBusyStatusInterval{1000}, kRequestInterval{50};
constexpr Milliseconds kShortestSilence{30'000};
// A polite end lets the slot go at once. A walsender in the middle of a large transaction does not listen; it is
// cancelled then.
constexpr Milliseconds kPoliteEnd{500}, kCancelledEnd{1000};

wire::TimestampUs wire_now() {
  constexpr std::int64_t kSecondsFrom1970To2000 = 946'684'800;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count() - kSecondsFrom1970To2000 * 1'000'000;
}

class WalsenderReader final : public ChangeReader {
 public:
  WalsenderReader(pg::Connection connection, const WalsenderOptions& options, Milliseconds sender_timeout);
  ~WalsenderReader() override;
  WalsenderReader(const WalsenderReader&) = delete;
  WalsenderReader& operator=(const WalsenderReader&) = delete;

  ReadEvent next(Deadline deadline) override;
  void keep_alive() override;
  void confirm(Lsn durable_end_lsn) noexcept override;
  void stop() noexcept override;
  void request_position() noexcept override;
  Lsn confirmed_lsn() const noexcept override { return Lsn{told_lsn_.load()}; }

 private:
  enum class Wait { readable, woken, time_over };

  void start(const WalsenderOptions& options);
  static void take_notice(void* reader, const PGresult* notice) noexcept;
  ReadEvent read_message(int size);
  [[noreturn]] void ended();
  Wait wait_for_input(Deadline deadline);
  Wait poll_once(Milliseconds timeout);
  void tell_when_quiet();
  void gather();
  void check_silence();
  bool is_status_due(Clock::time_point now, bool quiet) const;
  void send_status(bool ask);
  void flush();
  void wake() noexcept;
  void end_stream() noexcept;
  bool drain(Milliseconds limit) noexcept;
  PGconn* conn() const { return connection_.get(); }

  pg::Connection connection_;
  const std::string slot_;
  const Milliseconds status_interval_, silence_limit_;
  int wake_fd_ = -1;
  std::unique_ptr<char, decltype(&PQfreemem)> message_{nullptr, &PQfreemem};
  StreamNotices notices_;
  // TLS hands out a record at a time, and the rest of one is not seen by poll(): after each read one more is tried.
  bool tls_ = false, tls_rest_ = false;
  bool streaming_ = false, unsent_ = false, reply_wanted_ = false, silence_asked_ = false;
  int messages_since_pause_ = 0, messages_since_clock_ = 0;
  Lsn received_lsn_;
  Clock::time_point last_status_, last_request_, last_input_;

  std::atomic<std::uint64_t> confirmed_lsn_, told_lsn_;
  std::atomic<bool> stop_{false}, request_{false};
};

WalsenderReader::WalsenderReader(pg::Connection connection, const WalsenderOptions& options,
                                 Milliseconds sender_timeout)
    : connection_(std::move(connection)),
      slot_(options.slot),
      status_interval_(sender_timeout.count() == 0 ? kLongestStatusInterval
                                                   : std::min(sender_timeout / 3, kLongestStatusInterval)),
      silence_limit_(std::max(sender_timeout, kShortestSilence)),
      received_lsn_(options.start_lsn),
      confirmed_lsn_(options.confirmed_lsn ? options.confirmed_lsn.value : options.start_lsn.value),
      told_lsn_(0) {
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) throw Error(ErrorKind::failed, "no eventfd: too many open files");
  try {
    start(options);
  } catch (...) {
    ::close(wake_fd_);
    throw;
  }
}

// Called by libpq while it reads.
void WalsenderReader::take_notice(void* reader, const PGresult* notice) noexcept {
  static_cast<WalsenderReader*>(reader)->notices_.take(notice);
}

void WalsenderReader::start(const WalsenderOptions& options) {
  PQsetNoticeReceiver(conn(), &take_notice, this);
  start_replication(connection_, options);
  if (options.once_held) options.once_held();
  if (PQsetnonblocking(conn(), 1) != 0) throw connection_.error(nullptr, "making the stream's socket non-blocking");
  // Both fail harmlessly on a unix socket.
  const int fd = PQsocket(conn());
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof kReceiveBufferBytes);
  const auto patience = static_cast<unsigned>(silence_limit_.count());
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
  tls_ = PQsslInUse(conn()) != 0;
  streaming_ = true;
  last_input_ = Clock::now();
  send_status(false);
}

ReadEvent WalsenderReader::next(Deadline deadline) {
  for (;;) {
    if (stop_.load(std::memory_order_relaxed)) return Stopped{};
    message_.reset();
    char* raw = nullptr;
    const int size = PQgetCopyData(conn(), &raw, 1);
    message_.reset(raw);
    notices_.require_publications();
    if (size > 0) return read_message(size);
    if (size < 0) ended();
    switch (wait_for_input(deadline)) {
      case Wait::readable:
        tls_rest_ = tls_ && !std::exchange(tls_rest_, false);
        if (PQconsumeInput(conn()) == 0) throw stream_error(connection_, nullptr, slot_);
        last_input_ = Clock::now();
        silence_asked_ = false;
        continue;
      case Wait::woken:
        continue;
      case Wait::time_over:
        return Idle{};
    }
  }
}

ReadEvent WalsenderReader::read_message(int size) {
  tls_rest_ = tls_;
  ++messages_since_pause_;
  if (++messages_since_clock_ >= kMessagesPerClock) {
    messages_since_clock_ = 0;
    if (is_status_due(Clock::now(), false)) send_status(false);
  }
  const auto frame =
      wire::decode_frame({reinterpret_cast<const std::byte*>(message_.get()), static_cast<std::size_t>(size)});
  if (const auto* data = std::get_if<wire::XLogData>(&frame)) return Frame{data->start_lsn, data->body};
  const auto& keepalive = std::get<wire::Keepalive>(frame);
  received_lsn_ = std::max(received_lsn_, keepalive.wal_end_lsn);
  if (keepalive.reply_requested) {
    reply_wanted_ = true;
    send_status(false);
  }
  return Position{keepalive.wal_end_lsn};
}

// The source ends a stream on shutdown, or with an error.
void WalsenderReader::ended() {
  streaming_ = false;
  for (;;) {
    const pg::Result result(PQgetResult(conn()));
    if (result.get() == nullptr) break;
    if (result.status() != PGRES_COMMAND_OK && result.status() != PGRES_COPY_IN) {
      throw stream_error(connection_, result.get(), slot_);
    }
    if (result.status() == PGRES_COPY_IN && PQputCopyEnd(conn(), nullptr) < 0) break;
  }
  throw Error(ErrorKind::failed, fmt::format("the source ended the stream of slot {}", quote_identifier(slot_)))
      .side(Side::source)
      .action(Action::retry);
}

WalsenderReader::Wait WalsenderReader::wait_for_input(Deadline deadline) {
  if (messages_since_pause_ >= kBusyMessages) gather();
  const auto began = Clock::now();
  const auto note_pause = [&] {
    if (Clock::now() - began >= kQuietPause) messages_since_pause_ = 0;
  };
  if (tls_rest_) return Wait::readable;
  for (;;) {
    if (poll_once(Milliseconds(0)) == Wait::readable) return Wait::readable;
    if (stop_.load()) return Wait::woken;
    tell_when_quiet();
    // What becomes due meanwhile is seen in time: a status at its interval, a request at the end of its pause.
    const auto most = std::min(request_.load() ? kRequestInterval : kBusyStatusInterval, status_interval_);
    const auto wait = poll_once(deadline.left(most));
    note_pause();
    if (wait == Wait::readable) return wait;
    check_silence();
    if (deadline.passed()) return Wait::time_over;
  }
}

// Nothing is waiting: the moment to say how far we are.
void WalsenderReader::tell_when_quiet() {
  const auto now = Clock::now();
  const bool ask = request_.load() && now - last_request_ >= kRequestInterval;
  if (!ask && !is_status_due(now, true)) return;
  if (ask) {
    request_ = false;
    last_request_ = now;
  }
  send_status(ask);
}

WalsenderReader::Wait WalsenderReader::poll_once(Milliseconds timeout) {
  pollfd watch[2] = {{PQsocket(conn()), static_cast<short>(unsent_ ? POLLIN | POLLOUT : POLLIN), 0},
                     {wake_fd_, POLLIN, 0}};
  if (::poll(watch, 2, static_cast<int>(timeout.count())) <= 0) return Wait::time_over;
  if ((watch[1].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(wake_fd_, &count, sizeof count);
  }
  if ((watch[0].revents & POLLOUT) != 0) flush();
  // An error or a hang-up shows in the next read.
  return (watch[0].revents & ~POLLOUT) != 0 ? Wait::readable : Wait::woken;
}

// Lets messages gather in the socket while the stream is busy.
void WalsenderReader::gather() {
  int waiting = 0;
  if (::ioctl(PQsocket(conn()), FIONREAD, &waiting) == 0 && waiting >= kGulpBytes) return;
  std::this_thread::sleep_for(kGather);
}

void WalsenderReader::check_silence() {
  const auto silence = Clock::now() - last_input_;
  if (silence < silence_limit_) return;
  if (!silence_asked_) {
    silence_asked_ = true;
    log::debug("no message from the source for {}: asking", format_duration(silence_limit_));
    send_status(true);
  } else if (silence >= 2 * silence_limit_) {
    throw Error(ErrorKind::failed,
                fmt::format("the source has sent nothing for {}", format_duration(2 * silence_limit_)))
        .side(Side::source)
        .action(Action::retry)
        .hint("Look at the network and at the source's load.");
  }
}

bool WalsenderReader::is_status_due(Clock::time_point now, bool quiet) const {
  const auto since = now - last_status_;
  if (reply_wanted_ || since >= status_interval_) return true;
  return confirmed_lsn_.load() > told_lsn_.load() && (quiet || since >= kBusyStatusInterval);
}

void WalsenderReader::send_status(bool ask) {
  const Lsn flushed_lsn{confirmed_lsn_.load()};
  const auto status =
      wire::encode_status(std::max(received_lsn_, flushed_lsn), flushed_lsn, flushed_lsn, wire_now(), ask);
  if (PQputCopyData(conn(), reinterpret_cast<const char*>(status.data()), static_cast<int>(status.size())) != 1) {
    throw stream_error(connection_, nullptr, slot_);
  }
  flush();
  told_lsn_ = flushed_lsn.value;
  last_status_ = Clock::now();
  reply_wanted_ = false;
}

void WalsenderReader::flush() {
  const int rest = PQflush(conn());
  if (rest < 0) throw stream_error(connection_, nullptr, slot_);
  unsent_ = rest > 0;
}

void WalsenderReader::keep_alive() {
  if (unsent_) flush();
  if (is_status_due(Clock::now(), false)) send_status(false);
}

void WalsenderReader::confirm(Lsn durable_end_lsn) noexcept {
  auto known = confirmed_lsn_.load();
  while (known < durable_end_lsn.value && !confirmed_lsn_.compare_exchange_weak(known, durable_end_lsn.value)) {
  }
  if (known < durable_end_lsn.value) wake();
}

void WalsenderReader::stop() noexcept {
  stop_ = true;
  wake();
}

void WalsenderReader::request_position() noexcept {
  request_ = true;
  wake();
}

void WalsenderReader::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto put = ::write(wake_fd_, &one, sizeof one);
}

WalsenderReader::~WalsenderReader() {
  if (streaming_ && PQstatus(conn()) == CONNECTION_OK) end_stream();
  ::close(wake_fd_);
}

// Says how far we are, ends the stream, and waits for the server to agree: the slot is free when this returns.
void WalsenderReader::end_stream() noexcept {
  try {
    if (confirmed_lsn_.load() > told_lsn_.load()) send_status(false);
    if (PQputCopyEnd(conn(), nullptr) < 0) return;
    flush();
    if (drain(kPoliteEnd)) return;
    connection_.canceller().cancel();
    drain(kCancelledEnd);
  } catch (...) {  // the connection is gone: nothing is left to be polite to
  }
}

bool WalsenderReader::drain(Milliseconds limit) noexcept {
  const auto deadline = Deadline::after(limit);
  while (!deadline.passed()) {
    char* raw = nullptr;
    int size = 0;
    while ((size = PQgetCopyData(conn(), &raw, 1)) > 0 && !deadline.passed()) PQfreemem(raw);
    if (size > 0) PQfreemem(raw);
    if (size < 0) {
      // CommandComplete comes after the slot has been released.
      while (PQisBusy(conn()) == 0) {
        const pg::Result result(PQgetResult(conn()));
        if (result.get() == nullptr) return true;
      }
    }
    pollfd watch{PQsocket(conn()), static_cast<short>(unsent_ ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&watch, 1, static_cast<int>(deadline.left(limit).count())) <= 0) continue;
    if ((watch.revents & POLLOUT) != 0) unsent_ = PQflush(conn()) > 0;
    if ((watch.revents & ~POLLOUT) != 0 && PQconsumeInput(conn()) == 0) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<ChangeReader> open_walsender(const pg::Endpoint& source, const WalsenderOptions& options) {
  auto connection = pg::Connection::open(source, "stream", pg::Session::replication);
  const auto sender_timeout = load_sender_timeout(connection);
  return std::make_unique<WalsenderReader>(std::move(connection), options, sender_timeout);
}

}  // namespace pgbaton::source
