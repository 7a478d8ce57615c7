#include <pgbaton/apply/applier.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/stream/stream.hpp>

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "session.hpp"
#include "stream_report.hpp"

namespace pgbaton::stream {
namespace {

constexpr std::chrono::seconds kSolidSession{30};

std::string since(Clock::time_point then) {
  return format_duration(std::chrono::duration_cast<Milliseconds>(Clock::now() - then));
}

// A moment of the steady clock as people read it.
std::string clock_time(Clock::time_point then) {
  const auto wall = std::chrono::system_clock::now() -
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(Clock::now() - then);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wall);
  const std::chrono::hh_mm_ss time(seconds - std::chrono::floor<std::chrono::days>(seconds));
  return fmt::format("{:02}:{:02}:{:02} UTC", time.hours().count(), time.minutes().count(), time.seconds().count());
}

}  // namespace

struct Stream::Impl {
  StreamOptions options;
  state::Replica replica;
  state::Lease& lease;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  Positions positions;
  source::ReaderMemory reader_memory;

  Ended run_sessions(const Until& until, const std::stop_token& stop);
  void note_loss(const Error& error);
  void tell_of_reconnect(const std::string& after, const std::string& last_error);
  // Waits before the next try; throws when the time to give up has come.
  void wait_to_reconnect(const Error& error, Clock::time_point last_good, Milliseconds pause,
                         const std::stop_token& stop);
};

Stream::Stream(StreamOptions options, state::Replica replica, state::Lease& lease)
    : impl_(new Impl{std::move(options), std::move(replica), lease, std::make_shared<Gate>(), {}, {}}) {
  if (impl_->replica.direction != state::kSwitched) return;
  throw Error(ErrorKind::usage,
              fmt::format("replica {} was switched over: the application works on the target now", impl_->replica.name))
      .side(Side::target)
      .hint("`pgbaton switchover` with the same options ends what is left to be done.");
}
Stream::~Stream() = default;

Ended Stream::run(const Until& until, const std::stop_token& stop) {
  return impl_->run_sessions(until, stop);
}

Ended Stream::Impl::run_sessions(const Until& until, const std::stop_token& stop) {
  Backoff backoff;
  auto last_good = Clock::now();
  bool renew_lease = false;
  std::string last_error;
  while (!stop.stop_requested()) {
    const std::uint64_t applied_before = positions.applied;
    const auto started = Clock::now();
    try {
      if (renew_lease) lease.renew();
      Session session({options, replica, lease, until, *gate, positions, reader_memory});
      if (!last_error.empty()) tell_of_reconnect(since(last_good), std::exchange(last_error, {}));
      positions.connected = true;
      return session.run(stop);
    } catch (Error& error) {
      note_loss(error);
      if (error.action() != Action::retry) throw;
      if (error.sqlstate() == apply::kTablesChanged) {
        if (stop.stop_requested()) break;
        log::info("the stream begins again at once: {}", error.message());
        last_good = Clock::now();
        renew_lease = true;
        continue;
      }
      // A session that connects and fails at once, again and again, is no contact worth the name.
      if (positions.applied > applied_before || Clock::now() - started > kSolidSession) {
        backoff.reset();
        last_good = Clock::now();
      }
      renew_lease = true;
      positions.queued_bytes = positions.window_bytes = 0;  // they went with the session
      last_error = error.describe();
      wait_to_reconnect(error, last_good, backoff.next(), stop);
    }
  }
  return Ended::stopped;
}

// One loss, however many tries it takes. The last report would go on telling of a lag that nobody knows any more.
void Stream::Impl::note_loss(const Error& error) {
  if (!positions.connected.exchange(false)) return;
  if (error.action() != Action::retry || error.sqlstate() == apply::kTablesChanged) return;
  ++positions.reconnects;
  if (error.side() == Side::target) return;
  try {
    state::Store(lease.connection()).report_copy(replica.name, {{"reconnects", std::to_string(positions.reconnects)}});
  } catch (const Error& other) {
    log::debug("the target does not know yet that the stream stands still: {}", other.describe());
  }
}

void Stream::Impl::tell_of_reconnect(const std::string& after, const std::string& last_error) {
  log::info("connected again, after {}", after);
  state::Store(lease.connection()).tell_event(replica.name, "reconnect", {{"after", after}, {"message", last_error}});
}

void Stream::Impl::wait_to_reconnect(const Error& error, Clock::time_point last_good, Milliseconds pause,
                                     const std::stop_token& stop) {
  if (options.give_up_after && Clock::now() - last_good >= *options.give_up_after) {
    throw Error(ErrorKind::timed_out, "no progress for " + since(last_good) + "; last error: " + error.describe())
        .side(error.side())
        .sqlstate(error.sqlstate())
        .hint(error.sqlstate() == "55006" ? error.hint()
                                          : "Nothing is lost: run the same command again when the server is back.");
  }
  log::warning("the stream stands still since {} ({}): {}; trying again in {}", clock_time(last_good), since(last_good),
               error.describe(), format_duration(pause));
  sleep_for(pause, stop);
}

std::future<Cut> Stream::rest() {
  return impl_->gate->rest();
}

std::future<Cut> Stream::cut(Lsn cut_lsn) {
  return impl_->gate->ask(cut_lsn);
}

void Stream::withdraw() {
  impl_->gate->withdraw();
}

Lsn Stream::durable_end_lsn() const noexcept {
  return Lsn{impl_->positions.applied};
}

StreamStatus Stream::status() const {
  return read_status(impl_->positions);
}

StreamMeasures Stream::measures() const {
  const auto& seen = impl_->positions;
  return {seen.batch_seconds.counts(), seen.batch_changes.counts(), seen.delay_seconds.counts()};
}

}  // namespace pgbaton::stream
