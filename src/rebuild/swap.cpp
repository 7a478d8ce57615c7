// A rename takes the exclusive lock of its database, and then waits, looking every 100 ms, until nobody is connected to
// it. While it waits new connections wait for the lock, so an attempt is bounded: who has a long transaction must not
// keep everybody else out.
//
// The incoming database is renamed first, to a name of no meaning: an autovacuum worker in it then leaves before the
// live one is locked.
#include "swap.hpp"

#include <fmt/format.h>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/stop_writer.hpp>

#include <atomic>
#include <thread>

#include "database.hpp"

namespace pgbaton::rebuild {

namespace {

constexpr Milliseconds kAttemptTerminating{2000};  // those that are ended are gone in milliseconds
constexpr Milliseconds kAttemptWaiting{350};       // nobody was there when it began
constexpr Milliseconds kPause{500};
constexpr Milliseconds kPoll{100};
constexpr Milliseconds kKillInterval{5};
constexpr std::string_view kInUse = "55006", kCancelled = "57014";

std::string databases_of(const Generation* outgoing, const Generation& incoming) {
  auto list = quote_literal(incoming.database());
  if (outgoing != nullptr) list += ", " + quote_literal(outgoing->database());
  return list;
}

// Ends sessions of both databases, as long as it lives. On a connection and a thread of its own, because the one that
// renames waits for it.
class Terminator {
 public:
  Terminator(const Registry& registry, const std::string& databases)
      : connection_(pg::open_control(endpoint_of(registry.place(), registry.place().maintenance_db), "swap")),
        sql_(end_sessions_query(databases)),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}
  int ended() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    return seen_;
  }

 private:
  void run(const std::stop_token& stop) noexcept {
    try {
      while (!stop.stop_requested()) {
        pqxx::nontransaction tx(*connection_);
        seen_ = std::max(seen_.load(), tx.exec1(sql_)[0].as<int>());
        std::this_thread::sleep_for(kKillInterval);
      }
    } catch (const std::exception& error) {
      log::warning("sessions could not be ended: {}", error.what());
    }
  }
  std::unique_ptr<pg::Control> connection_;
  const std::string sql_;
  std::atomic<int> seen_{0};  // at one moment: those that wait for the lock are ended again and again
  std::jthread thread_;
};

class Swap {
 public:
  Swap(Registry& registry, const Generation* outgoing, const Generation& incoming, Readers readers)
      : registry_(registry),
        outgoing_(outgoing),
        incoming_(incoming),
        readers_(readers),
        databases_(databases_of(outgoing, incoming)) {}

  Swapped run(Milliseconds timeout, const std::stop_token& stop) {
    const auto deadline = Deadline::after(timeout);
    for (;;) {
      const auto in_the_way = blockers();
      if (in_the_way.empty() && attempt()) return result_;
      if (deadline.passed()) throw blocked(timeout, in_the_way);
      if (!sleep_for(in_the_way.empty() ? kPause : kPoll, stop))
        throw Error(ErrorKind::failed, "interrupted before the swap").hint("The live database is as it was.");
    }
  }

 private:
  // Prepared transactions are nobody's session and end with nobody; sessions that go by themselves, or that will be
  // ended, are none. With these nothing is tried, because an attempt keeps new connections waiting.
  std::vector<std::string> blockers() {
    std::vector<std::string> found;
    for (const auto& row : registry_.run("looking for prepared transactions",
                                         fmt::format("select gid, database from pg_catalog.pg_prepared_xacts where "
                                                     "database in ({}) order by prepared limit 5",
                                                     databases_)))
      found.push_back(fmt::format("prepared transaction {} in {}", quote_literal(row[0].c_str()), row[1].c_str()));
    for (auto& session : sessions(readers_ == Readers::wait ? "true" : "not " + may_be_ended_condition()))
      found.push_back(std::move(session));
    return found;
  }

  std::vector<std::string> sessions(const std::string& condition) {
    std::vector<std::string> found;
    for (const auto& row : registry_.run(
             "looking for sessions", fmt::format("select pid, usename, application_name, coalesce(state, '') from "
                                                 "pg_catalog.pg_stat_activity a where {} and {} order by backend_start "
                                                 "limit 5",
                                                 sessions_condition(databases_), condition)))
      found.push_back(fmt::format("pid {} ({} {}{}{})", row[0].c_str(), row[1].c_str(), row[2].c_str(),
                                  row[3].is_null() || row[3].size() == 0 ? "" : ", ", row[3].c_str()));
    return found;
  }

  Error blocked(Milliseconds timeout, std::vector<std::string> who) {
    if (who.empty()) who = sessions("true");
    return Error(ErrorKind::timed_out,
                 fmt::format("the swap of database {} was not possible within {}{}{}", registry_.name(),
                             format_duration(timeout), who.empty() ? "" : ": it is used by ", fmt::join(who, ", ")))
        .side(Side::target)
        .hint(
            readers_ == Readers::wait
                ? "The live database is as it was. End what uses it, or give more time with --swap-timeout; --readers "
                  "terminate ends sessions."
                : "The live database is as it was. End what uses it (a superuser's session only a superuser can), or "
                  "give more time with --swap-timeout.");
  }

  // False when somebody was in the way.
  bool attempt() {
    const auto begin = Clock::now();
    std::optional<Terminator> terminator;
    if (readers_ == Readers::terminate) terminator.emplace(registry_, databases_);
    try {
      rename();
    } catch (const Error& error) {
      if (terminator) terminator->ended();
      if (error.sqlstate() == kInUse || error.sqlstate() == kCancelled) return false;
      if (error.action() != Action::retry || !committed_after_all()) throw;
    }
    result_.time = std::chrono::duration_cast<Milliseconds>(Clock::now() - begin);
    if (terminator) result_.ended_sessions = terminator->ended();
    return true;
  }

  // The connection was lost: maybe behind the commit.
  bool committed_after_all() {
    pg::revive(registry_.connection(), endpoint_of(registry_.place(), registry_.place().maintenance_db), "rebuild");
    const auto live = registry_.live();
    return live && live->id == incoming_.id;
  }

  void rename() {
    const auto live = quote_identifier(registry_.name());
    const auto between = quote_identifier(incoming_.kept_name() + "_");
    const auto limit = readers_ == Readers::wait ? kAttemptWaiting : kAttemptTerminating;
    pg::control(Side::target, "swapping the databases", [&] {
      pqxx::work tx(registry_.connection());
      tx.exec(fmt::format("set local statement_timeout = {}", limit.count()));
      tx.exec(fmt::format("alter database {} rename to {}", quote_identifier(incoming_.database()), between));
      if (outgoing_ != nullptr)
        tx.exec(fmt::format("alter database {} rename to {}", live, quote_identifier(outgoing_->kept_name())));
      tx.exec(fmt::format("alter database {} rename to {}", between, live));
      Registry::change_live(tx, outgoing_ == nullptr ? 0 : outgoing_->id, incoming_.id);
      PGBATON_FAILPOINT("rebuild_renamed");
      tx.commit();
    });
    PGBATON_FAILPOINT("rebuild_swapped");
  }

  Registry& registry_;
  const Generation* outgoing_;
  const Generation& incoming_;
  const Readers readers_;
  const std::string databases_;
  Swapped result_;
};

}  // namespace

void stop_writer(Registry& registry, Generation& live, Milliseconds patience, const std::stop_token& stop) {
  auto connection = pg::open_control(endpoint_of(registry.place(), live.database()), "rebuild");
  state::Store store(*connection);
  const auto& name = registry.place().names.name;
  const auto replica = store.load_replica(name);
  if (!replica) return;
  registry.store_on_source(live, replica->slot);
  if (!state::Lease::held(*connection, name)) return;
  state::stop_writer(store, name, "", Deadline::after(patience), stop);
}

Swapped swap(Registry& registry, const Generation* outgoing, const Generation& incoming, Readers readers,
             Milliseconds timeout, const std::stop_token& stop) {
  return Swap(registry, outgoing, incoming, readers).run(timeout, stop);
}

}  // namespace pgbaton::rebuild
