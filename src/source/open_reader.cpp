// The reader that chooses. Thresholds on the lag (source's flush position − what has been handed out), with room
// between them, so that it does not go back and forth:
//
//        0 ───── walsender again ───── stays what it is ───── peek ─────►
//                    16 MB                                   64 MB
//
// A change of readers needs a border of transactions. The new reader begins exactly where the old one ended: B is
// advanced to it, START_REPLICATION takes it as its start. That moves nothing of A: what is confirmed is told by
// confirm() alone, and while no reader is there (the applier may confirm at that moment) it is kept here.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/base/size.hpp>
#include <pgbaton/source/open_reader.hpp>
#include <pgbaton/source/walsender.hpp>
#include <pgbaton/wire/replication.hpp>

#include "peek.hpp"

namespace pgbaton::source {
namespace {

struct Thresholds {
  std::uint64_t peek_above = 64u << 20, walsender_below = 16u << 20;
  Milliseconds stay{3000};  // with the walsender, before the lag decides again
  Milliseconds keep_interval{5000};
  StepLimits steps;
};

// A test has no time to write gigabytes of WAL.
Thresholds thresholds() {
  Thresholds result;
  if (PGBATON_FAILPOINT_SET("peek_small_steps")) {
    result.peek_above = 512 << 10;
    result.walsender_below = 64 << 10;
    result.stay = Milliseconds(0);
    result.keep_interval = Milliseconds(100);
    result.steps.least = 128 << 10;
    result.steps.most = 1 << 20;
  }
  if (PGBATON_FAILPOINT_SET("peek_short_reach")) result.steps.reach = 1 << 20;
  return result;
}

// Before another try, where what happened says nothing about when it may pass.
constexpr Milliseconds kTryAgain{30'000};

class ChoosingReader final : public ChangeReader {
 public:
  ChoosingReader(const pg::Endpoint& source, ReaderOptions options);

  ReadEvent next(Deadline deadline) override;
  void keep_alive() override { current()->keep_alive(); }
  void confirm(Lsn durable_end_lsn) noexcept override;
  void stop() noexcept override;
  void request_position() noexcept override;
  void source_has_written(Lsn flush_lsn) noexcept override;
  Lsn confirmed_lsn() const noexcept override;

 private:
  ChangeReader* current() const { return peek_ ? static_cast<ChangeReader*>(peek_.get()) : walsender_.get(); }
  void choose();
  void note(const ReadEvent& event);
  bool may_peek() const;
  void begin_to_peek();
  void begin_to_stream();
  void refuse_peek(const Error& error, Milliseconds pause);
  std::unique_ptr<PeekReader> open_peek() const;
  std::unique_ptr<ChangeReader> open_stream() const;
  template <typename Reader>
  void install(std::unique_ptr<Reader>& place, std::unique_ptr<Reader> reader);

  const pg::Endpoint source_;
  const ReaderOptions options_;
  const Thresholds thresholds_ = thresholds();
  ReaderMemory own_memory_;
  ReaderMemory& memory_;

  // Written by the thread of next() under the lock, read by it without and by others with it.
  mutable std::mutex mutex_;
  std::unique_ptr<PeekReader> peek_;
  std::unique_ptr<ChangeReader> walsender_;
  std::uint64_t told_lsn_ = 0;  // by readers before

  Lsn position_lsn_;  // everything with commit LSN < it is handed out
  bool in_transaction_ = false;
  Clock::time_point streams_since_;
  std::atomic<std::uint64_t> confirmed_lsn_, flush_lsn_;
  std::atomic<bool> stop_{false};
};

ChoosingReader::ChoosingReader(const pg::Endpoint& source, ReaderOptions options)
    : source_(source),
      options_(std::move(options)),
      memory_(options_.memory != nullptr ? *options_.memory : own_memory_),
      position_lsn_(options_.start_lsn),
      confirmed_lsn_(options_.start_lsn.value),
      flush_lsn_(options_.source_flush_lsn.value) {
  if (options_.mode == ReaderMode::peek || may_peek()) {
    try {
      peek_ = open_peek();
      return;
    } catch (const CannotPeek& refusal) {
      if (options_.mode == ReaderMode::peek) throw;
      refuse_peek(refusal, refusal.pause);
    }
  }
  walsender_ = open_stream();
}

bool ChoosingReader::may_peek() const {
  return options_.mode == ReaderMode::automatic && distance(position_lsn_, Lsn{flush_lsn_}) > thresholds_.peek_above &&
         Clock::now() >= memory_.no_peek_before;
}

std::unique_ptr<PeekReader> ChoosingReader::open_peek() const {
  PeekOptions options;
  options.reader = options_;
  options.position_lsn = position_lsn_;
  options.confirmed_lsn = Lsn{confirmed_lsn_};
  options.limits = thresholds_.steps;
  options.keep_interval = thresholds_.keep_interval;
  options.only_way = options_.mode == ReaderMode::peek;
  auto reader = std::make_unique<PeekReader>(source_, std::move(options));
  if (options_.mode == ReaderMode::automatic)
    log::info("{} behind: reading slot {} in large steps by SQL", format_size(reader->lag()),
              quote_identifier(options_.slot));
  return reader;
}

std::unique_ptr<ChangeReader> ChoosingReader::open_stream() const {
  WalsenderOptions options;
  options.slot = options_.slot;
  options.publications = options_.publications;
  options.start_lsn = position_lsn_;
  options.confirmed_lsn = Lsn{confirmed_lsn_};
  options.system_identifier = options_.system_identifier;
  options.timeline = options_.timeline;
  if (options_.once_held) options.once_held = [&] { options_.once_held(options.confirmed_lsn); };
  return open_walsender(source_, options);
}

ReadEvent ChoosingReader::next(Deadline deadline) {
  if (stop_.load(std::memory_order_relaxed)) return Stopped{};
  if (!in_transaction_) choose();
  try {
    auto event = current()->next(deadline);
    note(event);
    return event;
  } catch (const CannotPeek& refusal) {
    if (options_.mode != ReaderMode::automatic) throw;
    refuse_peek(refusal, refusal.pause);
  }
  begin_to_stream();
  return Idle{};
}

void ChoosingReader::note(const ReadEvent& event) {
  if (const auto* frame = std::get_if<Frame>(&event)) {
    if (wire::is_begin(frame->body)) {
      in_transaction_ = true;
    } else if (const auto end_lsn = wire::commit_end_lsn(frame->body)) {
      in_transaction_ = false;
      position_lsn_ = std::max(position_lsn_, *end_lsn);
    }
  } else if (const auto* position = std::get_if<Position>(&event)) {
    if (!in_transaction_) position_lsn_ = std::max(position_lsn_, position->lsn);
  }
}

void ChoosingReader::choose() {
  if (options_.mode != ReaderMode::automatic) return;
  if (peek_) {
    // Only at the end of a step: what it still has to hand out lies below its end.
    if (peek_->between_steps() &&
        distance(position_lsn_, std::max(Lsn{flush_lsn_}, peek_->flush_lsn())) <= thresholds_.walsender_below)
      begin_to_stream();
  } else if (may_peek() && Clock::now() - streams_since_ >= thresholds_.stay) {
    begin_to_peek();
  }
}

template <typename Reader>
void ChoosingReader::install(std::unique_ptr<Reader>& place, std::unique_ptr<Reader> reader) {
  const std::lock_guard lock(mutex_);
  place = std::move(reader);
  place->confirm(Lsn{confirmed_lsn_});
  if (stop_) place->stop();
}

// The walsender goes on until the copy is made; whatever is in the way of it leaves things as they are.
void ChoosingReader::begin_to_peek() {
  std::unique_ptr<PeekReader> reader;
  try {
    PGBATON_FAILPOINT("reader_before_peek");
    reader = open_peek();
  } catch (const CannotPeek& refusal) {
    return refuse_peek(refusal, refusal.pause);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::boundary_lost) throw;
    return refuse_peek(error, kTryAgain);
  }
  std::unique_ptr<ChangeReader> retired;
  {
    const std::lock_guard lock(mutex_);
    retired = std::move(walsender_);
    told_lsn_ = std::max(told_lsn_, retired->confirmed_lsn().value);
  }
  retired.reset();
  install(peek_, std::move(reader));
  PGBATON_FAILPOINT("reader_peeks");
}

void ChoosingReader::begin_to_stream() {
  PGBATON_FAILPOINT("reader_before_stream");
  std::unique_ptr<PeekReader> retired;
  {
    const std::lock_guard lock(mutex_);
    retired = std::move(peek_);
    told_lsn_ = std::max(told_lsn_, retired->confirmed_lsn().value);
  }
  retired->hand_over();
  retired.reset();
  install(walsender_, open_stream());
  streams_since_ = Clock::now();
  log::info("the walsender of slot {} goes on at {}", quote_identifier(options_.slot), to_string(position_lsn_));
  PGBATON_FAILPOINT("reader_streams");
}

void ChoosingReader::refuse_peek(const Error& error, Milliseconds pause) {
  memory_.no_peek_before = Clock::now() + pause;
  log::info("the backlog is read from the walsender, not in large steps by SQL: {}; trying that again in {}",
            error.describe(), format_duration(pause));
}

void ChoosingReader::confirm(Lsn durable_end_lsn) noexcept {
  auto known = confirmed_lsn_.load();
  while (known < durable_end_lsn.value && !confirmed_lsn_.compare_exchange_weak(known, durable_end_lsn.value)) {
  }
  const std::lock_guard lock(mutex_);
  if (auto* reader = current()) reader->confirm(durable_end_lsn);
}

void ChoosingReader::stop() noexcept {
  stop_ = true;
  const std::lock_guard lock(mutex_);
  if (auto* reader = current()) reader->stop();
}

void ChoosingReader::request_position() noexcept {
  const std::lock_guard lock(mutex_);
  if (auto* reader = current()) reader->request_position();
}

void ChoosingReader::source_has_written(Lsn flush_lsn) noexcept {
  auto known = flush_lsn_.load();
  while (known < flush_lsn.value && !flush_lsn_.compare_exchange_weak(known, flush_lsn.value)) {
  }
}

Lsn ChoosingReader::confirmed_lsn() const noexcept {
  const std::lock_guard lock(mutex_);
  const auto* reader = current();
  return std::max(Lsn{told_lsn_}, reader == nullptr ? Lsn{} : reader->confirmed_lsn());
}

}  // namespace

std::unique_ptr<ChangeReader> open_reader(const pg::Endpoint& source, ReaderOptions options) {
  return std::make_unique<ChoosingReader>(source, std::move(options));
}

}  // namespace pgbaton::source
