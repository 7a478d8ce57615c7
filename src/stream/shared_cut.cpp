#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/stream/shared_cut.hpp>

#include <fmt/format.h>

#include <array>

namespace pgbaton::stream {
namespace {

// By contract: a request that nobody takes up.
constexpr Milliseconds kPickUp{30'000};
// For one that was taken and got no answer: its writer lost a connection, and with it what it was doing.
constexpr Milliseconds kAnswer{15'000};
// Between tries, so that the appliers catch up from one rest before the next.
constexpr Milliseconds kBetweenTries{1000};
constexpr Milliseconds kPoll{20};
constexpr Milliseconds kWriterLook{500};
// A writer that reconnects, or hands over to a next one, is not gone.
constexpr Milliseconds kWriterGone{5000};

}  // namespace

// One row in pgbaton.request, and the connection whose end tells the writer that nobody waits any more.
struct SharedCut::Asking {
  explicit Asking(const CutRequest& wish)
      : request(wish), connection(pg::open_control(wish.target, "cut-request")), store(*connection) {}
  ~Asking() {
    try {
      withdraw();
    } catch (const std::exception& error) {
      log::debug("a request for a cut could not be removed: {}", error.what());
    }
  }
  Asking(const Asking&) = delete;

  void ask() {
    const auto pid = pg::control(Side::target, "asking for a cut", [&] {
      pqxx::nontransaction tx(*connection);
      return tx.exec1("select pg_backend_pid()::text")[0].as<std::string>();
    });
    const auto hold = request.hold ? request.hold->count() : 0;
    id = store.insert_request(request.replica, "cut",
                              state::to_json({{"requester_pid", pid}, {"hold_ms", std::to_string(hold)}}));
  }
  void withdraw() {
    if (id != 0) store.delete_request(std::exchange(id, 0));
  }
  state::Fields answer(const std::stop_token& stop);
  void look_for_writer();

  CutRequest request;
  std::unique_ptr<pg::Control> connection;
  state::Store store;
  std::int64_t id = 0;
  Clock::time_point writer_seen = Clock::now(), next_look = Clock::now();
};

void SharedCut::Asking::look_for_writer() {
  if (Clock::now() < next_look) return;
  next_look = Clock::now() + kWriterLook;
  if (state::Lease::held(*connection, request.replica)) writer_seen = Clock::now();
  if (Clock::now() - writer_seen < kWriterGone) return;
  throw Error(ErrorKind::failed, fmt::format("the writer of replica {} ended before it made the cut", request.replica))
      .side(Side::target)
      .hint("`pgbaton status` shows what became of it; run the same command again.");
}

// The result of one try; with an "error" in it, or empty when there was none in time.
state::Fields SharedCut::Asking::answer(const std::stop_token& stop) {
  const auto picked_up = Deadline::after(kPickUp);
  std::optional<Deadline> answered;
  for (;;) {
    if (request.while_waiting) request.while_waiting();
    const auto seen = store.load_request(id);
    if (!seen || seen->state == "done") return {};
    if (!seen->result.empty()) return seen->result;
    if (seen->state == "taken" && !answered) answered = Deadline::after(kAnswer);
    if (answered && answered->passed()) return {};
    look_for_writer();
    if (!answered && picked_up.passed())
      throw Error(ErrorKind::timed_out, fmt::format("no writer of replica {} took up the request for a cut within {}",
                                                    request.replica, format_duration(kPickUp)))
          .side(Side::target)
          .hint("The process that holds the replica does not stream: see `pgbaton status`, and try again later.");
    if (request.deadline.passed()) return {};
    if (!sleep_for(kPoll, stop)) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
  }
}

namespace {

// What the writer says of a try that failed; throws when another one is of no use.
std::string reason_of(const state::Fields& answer) {
  const auto text = [&](const char* name) {
    const auto found = answer.find(name);
    return found == answer.end() ? std::string() : found->second;
  };
  if (answer.empty()) return "the writer did not answer";
  if (text("again") == "true") return text("error");
  const auto kind = text("kind") == to_string(ErrorKind::preflight) ? ErrorKind::preflight : ErrorKind::failed;
  throw Error(kind, "the cut: " + text("error")).hint(text("hint"));
}

std::string export_again(pg::Connection& connection) {
  return connection.exec("SELECT pg_export_snapshot()").text(0, 0);
}

}  // namespace

SharedCut SharedCut::request(const CutRequest& request, const std::stop_token& stop) {
  for (;;) {
    auto asking = std::make_unique<Asking>(request);
    asking->ask();
    const auto answer = asking->answer(stop);
    if (const auto at = answer.find("cut_lsn"); at != answer.end()) {
      SharedCut cut;
      cut.lsn_ = require_lsn(at->second, "the cut");
      cut.pause_ = Milliseconds(std::stoll(answer.at("pause_ms")));
      cut.since_ = Clock::now() - cut.pause_;
      cut.source_.emplace(source::open_snapshot_worker(request.source, answer.at("source_snapshot"), "cut-source"));
      cut.target_.emplace(source::open_snapshot_worker(request.target, answer.at("target_snapshot"), "cut-target"));
      cut.source_snapshot_ = export_again(*cut.source_);
      cut.target_snapshot_ = export_again(*cut.target_);
      if (request.hold) cut.asking_ = std::move(asking);
      return cut;
    }
    const auto reason = reason_of(answer);
    log::info("no cut yet: {}", reason);
    if (request.deadline.passed())
      throw Error(ErrorKind::timed_out, "no cut in time: " + reason)
          .hint("Let what stands in the way end, or give more time with --timeout.");
    asking.reset();
    sleep_for(std::min(kBetweenTries, request.deadline.left(kBetweenTries)), stop);
  }
}

SharedCut::SharedCut() = default;
SharedCut::SharedCut(SharedCut&&) noexcept = default;
SharedCut::~SharedCut() = default;

Milliseconds SharedCut::release() {
  if (asking_) {
    asking_->withdraw();
    asking_.reset();
    pause_ = std::chrono::duration_cast<Milliseconds>(Clock::now() - since_);
  }
  return pause_;
}

bool hold_still(pg::Connection& target, const state::Replica& replica, Lsn cut_lsn) {
  const auto lsn = to_string(cut_lsn);
  const std::array<pg::Parameter, 3> parameters{replica.name, replica.generation, lsn};
  const auto rows = target.exec(
      "select applied_lsn = $3::pg_lsn from pgbaton.progress where replica = $1 and generation = $2 for update",
      parameters);
  if (rows.rows() == 0) return false;
  for (int i = 0; i < rows.rows(); ++i)
    if (rows.value(i, 0) != "t") return false;
  // Behind the flip of a switchover the application writes there. A statement of its own sees what the lock waited for.
  const std::array<pg::Parameter, 3> whose{replica.name, replica.generation, state::kSwitched};
  return target.exec("select from pgbaton.replica where name = $1 and generation = $2 and direction <> $3", whose)
             .rows() > 0;
}

}  // namespace pgbaton::stream
