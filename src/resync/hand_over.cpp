#include <fmt/format.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/embedded_sql.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/stream/shared_cut.hpp>

#include <atomic>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

namespace pgbaton::resync {

namespace {

constexpr Milliseconds kPoll{50};
// The replica's stream rests at the cut for that long at most; the shadow is less than a second behind it.
constexpr Milliseconds kHold{5000};
// A shadow that follows a position of now within this time has caught up; that of quiet tables hears of positions only
// once a second. After some rounds the gap is as small as it gets: then the cut is tried all the same.
constexpr Milliseconds kCaughtUp{3000};
constexpr int kRounds = 5;
// The shadow rests while a cut is tried: for no longer than lets it reach the cut within kHold.
constexpr Milliseconds kCutWait{5000};
constexpr Milliseconds kRestWait{30'000};

state::Replica require_replica(state::Store& store, const std::string& name) {
  auto replica = store.load_replica(name);
  if (replica) return *replica;
  throw Error(ErrorKind::failed, fmt::format("replica {} is gone from the target", name))
      .side(Side::target)
      .hint("Somebody dropped it; `pgbaton status` shows what is left.");
}

// The shadow's stream in a thread of its own.
class Shadow {
 public:
  Shadow(const stream::StreamOptions& options, state::Replica replica, state::Lease& lease)
      : stream_(options, std::move(replica), lease) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Shadow() { end(); }
  Shadow(const Shadow&) = delete;

  stream::Stream& stream() { return stream_; }
  void check() const {
    if (ended_ && error_) std::rethrow_exception(error_);
  }
  // Asked to end, it applies nothing more when it is let go of a cut.
  void ask_to_end() { thread_.request_stop(); }
  void end() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run(const std::stop_token& stop) noexcept {
    try {
      stream_.run(stream::OpenEnded{}, stop);
    } catch (...) {
      error_ = std::current_exception();
    }
    ended_ = true;
  }

  stream::Stream stream_;
  std::exception_ptr error_;
  std::atomic<bool> ended_{false};  // set after error_
  std::jthread thread_;
};

class Withdrawal {
 public:
  explicit Withdrawal(stream::Stream& stream) : stream_(stream) {}
  ~Withdrawal() { stream_.withdraw(); }
  Withdrawal(const Withdrawal&) = delete;

 private:
  stream::Stream& stream_;
};

class Run {
 public:
  Run(const HandOver& options, state::Lease& lease, const std::stop_token& stop)
      : options_(options),
        stop_(stop),
        target_(pg::open_control(options.shadow_stream.target, "resync")),
        source_(pg::open_control(options.shadow_stream.source, "resync")),
        store_(*target_),
        replica_(require_replica(store_, options.replica)),
        shadow_replica_(require_replica(store_, options.shadow)),
        shadow_(options.shadow_stream, shadow_replica_, lease) {}

  HandedOver all() {
    for (;;) {
      catch_up();
      if (try_once()) return result_;
      give_up_if_due();
    }
  }

 private:
  void give_up_if_due() const {
    if (!deadline_.passed()) return;
    throw Error(ErrorKind::timed_out, "the tables were not given back to the replica's stream in time: " + obstacle_)
        .hint("Nothing is lost, and they are kept up to date as long as the command runs: run it again.");
  }

  void wait_a_little() {
    shadow_.check();
    if (options_.while_waiting) options_.while_waiting();
    if (!sleep_for(kPoll, stop_)) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
  }

  void catch_up() {
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = Clock::now();
      const Lsn flush_lsn = catalog::current_flush_lsn(*source_);
      while (shadow_.stream().durable_end_lsn() < flush_lsn) {
        wait_a_little();
        give_up_if_due();
      }
      if (Clock::now() - begin < kCaughtUp) return;
    }
  }

  // Nothing when it failed, or took longer than the replica's stream may rest.
  std::optional<stream::Cut> arrive(std::future<stream::Cut> cut, Deadline deadline) {
    while (cut.wait_for(Milliseconds(0)) != std::future_status::ready) {
      if (deadline.passed()) {
        obstacle_ = "a large transaction of the tables was being applied";
        return std::nullopt;
      }
      wait_a_little();
    }
    try {
      return cut.get();
    } catch (const Error& error) {
      if (error.action() != Action::retry) throw;
      put_off(error);
      return std::nullopt;
    }
  }

  void put_off(const Error& error) {
    obstacle_ = error.message();
    log::info("resync: {}; trying again", error.describe());
  }

  std::optional<stream::SharedCut> hold_replica() {
    stream::CutRequest request;
    request.source = options_.stream.source;
    request.target = options_.stream.target;
    request.replica = options_.replica;
    request.hold = kHold;
    request.deadline = Deadline::after(kCutWait);
    request.while_waiting = [this] {
      shadow_.check();
      if (options_.while_waiting) options_.while_waiting();
    };
    try {
      return stream::SharedCut::request(request, stop_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timed_out) throw;
      put_off(error);
      return std::nullopt;
    }
  }

  // The shadow rests first, so that it is not beyond the cut.
  bool try_once() {
    const Withdrawal withdrawal(shadow_.stream());
    auto rest = arrive(shadow_.stream().rest(), Deadline::after(kRestWait));
    if (!rest) return false;
    auto held = hold_replica();
    if (!held) return false;
    auto at_cut = arrive(shadow_.stream().cut(held->lsn()), Deadline::after(kHold));
    if (!at_cut) return false;
    PGBATON_FAILPOINT("resync_cut");
    if (!give_back(held->lsn())) return false;
    shadow_.ask_to_end();
    result_.pause = held->release();
    at_cut.reset();
    rest.reset();
    PGBATON_FAILPOINT("resync_given_back");
    shadow_.end();
    return true;
  }

  // Both have exactly what commits below the cut, and neither can commit while this transaction is open: then the
  // tables change hands. Who read the tables before, the shadow too, can commit nothing afterwards.
  bool give_back(Lsn cut_lsn) {
    auto connection = pg::Connection::open(options_.shadow_stream.target, "hand-over");
    connection.exec("begin isolation level read committed");
    connection.exec("set local lock_timeout = '5s'");
    if (!stream::hold_still(connection, replica_, cut_lsn) ||
        !stream::hold_still(connection, shadow_replica_, cut_lsn)) {
      obstacle_ = "the streams had left the cut";
      return false;
    }
    const auto moved = connection.exec(give_back_statement(cut_lsn));
    require_all(moved);
    connection.exec(
        fmt::format("update pgbaton.progress set tables_version = tables_version + 1 where replica in ({}, {})",
                    quote_literal(replica_.name), quote_literal(shadow_replica_.name)));
    rename_ledgers(connection);
    PGBATON_FAILPOINT("resync_before_commit");
    connection.exec("commit");
    result_.boundary_lsn = cut_lsn;
    result_.tables = std::stoll(moved.text(0, 3));
    result_.rows = std::stoll(moved.text(0, 4));
    return true;
  }

  // Their triggers know by the replica's name what is not needed any more.
  void rename_ledgers(pg::Connection& connection) const {
    const auto ledgers = connection.exec(fmt::format(
        "select g.tgname, format('pgbaton.%I', c.relname), pg_get_triggerdef(g.oid) from pg_catalog.pg_trigger g join "
        "pg_catalog.pg_class c on c.oid = g.tgrelid where c.relnamespace = 'pgbaton'::regnamespace and g.tgnargs = 1 "
        "and encode(g.tgargs, 'escape') = {} || '\\000'",
        quote_literal(shadow_replica_.name)));
    for (int i = 0; i < ledgers.rows(); ++i) {
      auto definition = ledgers.text(i, 2);
      const auto old = quote_literal(shadow_replica_.name);
      definition.replace(definition.rfind(old), old.size(), quote_literal(replica_.name));
      connection.exec(fmt::format("drop trigger {} on {}; {}", quote_identifier(ledgers.text(i, 0)), ledgers.text(i, 1),
                                  definition));
    }
  }

  std::string give_back_statement(Lsn cut_lsn) const {
    std::string sql(sql::resync_give_back);
    for (const auto& [name, value] :
         {std::pair{":'replica'", replica_.name}, std::pair{":'shadow'", shadow_replica_.name},
          std::pair{":'boundary'", to_string(cut_lsn)}})
      for (auto at = sql.find(name); at != sql.npos; at = sql.find(name))
        sql.replace(at, std::strlen(name), quote_literal(value));
    return sql;
  }

  void require_all(const pg::Result& moved) const {
    if (moved.text(0, 0) == moved.text(0, 2) && moved.text(0, 1) == moved.text(0, 2) && moved.text(0, 2) != "0") return;
    throw Error(ErrorKind::failed,
                fmt::format("{} tables were copied again, of {} that left replica {}; {} would return",
                            moved.text(0, 0), moved.text(0, 1), replica_.name, moved.text(0, 2)))
        .side(Side::target)
        .action(Action::bug)
        .hint("Nothing was changed. The replica may have been begun anew meanwhile: see `pgbaton status`.");
  }

  const HandOver& options_;
  const std::stop_token& stop_;
  std::unique_ptr<pg::Control> target_, source_;
  state::Store store_;
  const state::Replica replica_, shadow_replica_;
  Shadow shadow_;
  HandedOver result_;
  const Deadline deadline_ =
      options_.stream.give_up_after ? Deadline::after(*options_.stream.give_up_after) : Deadline::never();
  std::string obstacle_ = "their stream has not caught up";
};

}  // namespace

HandedOver hand_over(const HandOver& options, state::Lease& lease, const std::stop_token& stop) {
  return Run(options, lease, stop).all();
}

}  // namespace pgbaton::resync
