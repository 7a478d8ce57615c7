#include "fence.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/switchover_embedded_sql.hpp>

#include <algorithm>

#include "holders.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kFirstLockTimeout{50};
// Between tries, so that the writers who waited get on.
constexpr Milliseconds kBetweenTries{50};
// Beyond the wait for transactions: for tables whose order of locks has to be found.
constexpr Milliseconds kPatience{20'000};
// A transaction that is open for so long is not asked for a lock, which others would queue behind, but waited for.
constexpr double kLongSeconds = 1.0;
// Removing a trigger waits for readers; writers queue behind it for so long.
constexpr Milliseconds kRemoveLockTimeout{100}, kBetweenRemovals{300};

// Until the end of the transaction.
void lock_fence(pg::Connection& connection) {
  connection.exec("set synchronous_commit = local");
  connection.exec("begin isolation level read committed read write");
  try {
    connection.exec("set local lock_timeout = '5s'");
    connection.exec("select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('pgbaton:fence', 0))");
  } catch (...) {
    abandon(connection);
    throw;
  }
}

// The value of `work` in a transaction of its own.
template <typename Work>
auto with_fence_locked(pg::Connection& connection, Work&& work) {
  lock_fence(connection);
  try {
    const auto result = work();
    connection.exec("commit");
    return result;
  } catch (...) {
    abandon(connection);
    throw;
  }
}

void refuse_writes(pg::Connection& connection, const std::string& about, const std::string& exempt) {
  connection.exec("set local client_min_messages = warning");
  connection.exec(replaced(sql::fence_refuse, {{":about", quote_literal(about)}, {":exempt", quote_literal(exempt)}}));
}

class Closing {
 public:
  Closing(pg::Connection& connection, const FenceRequest& request, const std::stop_token& stop)
      : connection_(connection),
        request_(request),
        stop_(stop),
        order_(fenced_with(connection, request.tables)),
        longest_(longest_lock_timeout(connection)) {}

  Closed run() {
    const auto wait = Deadline::after(request_.transaction_wait);
    const auto end = Deadline::after(request_.transaction_wait + kPatience);
    auto timeout = std::min(kFirstLockTimeout, longest_);
    for (;;) {
      if (stop_.stop_requested()) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
      if (long_ones(everybody(), wait)) continue;
      // Held back from here on, they wait through all tries.
      if (result_.attempts == 0 || !request_.before_waiting) result_.since = Clock::now();
      if (result_.attempts++ == 0 && request_.before_waiting) request_.before_waiting();
      if (attempt(timeout)) return result_;
      timeout = std::min(timeout * 2, longest_);
      if (end.passed()) give_up_on(connection_, load_holders(connection_), "the fence did not get its locks");
      if (wait.passed()) end_holders(load_holders(connection_), waited_for_, 0.3);
      sleep_for(kBetweenTries, stop_);
    }
  }

 private:
  std::vector<Holder> everybody() {
    auto found = load_holders(connection_);
    if (!request_.all_transactions) return found;
    for (auto& other : load_open_transactions(connection_))
      if (other.lasting && std::ranges::find(found, other.session.pid, &Holder::pid) == found.end())
        found.push_back(std::move(other.session));
    return found;
  }

  // True when somebody has to be waited for.
  bool long_ones(const std::vector<Holder>& holders, const Deadline& wait) {
    std::vector<Holder> found;
    for (const auto& holder : holders)
      if (holder.pid == 0 || (holder.seconds > kLongSeconds && is_client(holder))) found.push_back(holder);
    if (found.empty()) return false;
    if (!wait.passed()) {
      if (!std::exchange(told_, true))
        log::info("waiting up to {} for open write transactions: {}", format_duration(request_.transaction_wait),
                  found.front().text);
      sleep_for(kBetweenTries, stop_);
      return true;
    }
    if (found.front().pid == 0 || !request_.terminate)
      give_up_on(connection_, found, "write transactions are still open");
    end_holders(found, {}, kLongSeconds);
    return false;
  }

  // Of one table, or ("") all; those whose transaction is older.
  void end_holders(std::vector<Holder> holders, const std::string& table, double seconds) {
    if (!request_.terminate) return;
    std::erase_if(holders, [&](const auto& holder) {
      return holder.seconds < seconds ||
             (!table.empty() && (" " + holder.tables + " ").find(" " + table + " ") == std::string::npos);
    });
    result_.terminated += end_sessions(connection_, holders);
  }

  bool attempt(Milliseconds timeout) {
    try {
      lock_fence(connection_);
      connection_.exec(fmt::format("set local lock_timeout = {}", timeout.count()));
      refuse_writes(connection_, request_.about, request_.exempt);
      connection_.exec(replaced(sql::fence_close, {{":tables", array_of(order_)}}));
      PGBATON_FAILPOINT("fence_before_commit");
      connection_.exec("commit");
      return true;
    } catch (const Error& error) {
      if (error.sqlstate() != "55P03") throw;
      connection_.exec("rollback");
      if (const auto table = table_without_lock(error.message()); !table.empty()) first(table);
      log::debug("fence, try {}: {}", result_.attempts, error.message());
      cancel_vacuum(connection_);
      return false;
    }
  }

  void first(const std::string& table) {
    waited_for_ = table;
    const auto found = std::ranges::find_if(order_, [&](const auto& name) { return name.quoted() == table; });
    if (found != order_.end()) std::rotate(order_.begin(), found, found + 1);
  }

  pg::Connection& connection_;
  const FenceRequest& request_;
  const std::stop_token& stop_;
  std::vector<QualifiedName> order_;
  Milliseconds longest_{0};
  std::string waited_for_;
  Closed result_;
  bool told_ = false;
};

}  // namespace

pg::Connection open_fence_session(const pg::Endpoint& server, std::string_view role) {
  auto connection = pg::Connection::open(server, role);
  try {
    connection.exec("set session_replication_role = replica");
  } catch (const Error& error) {
    if (error.sqlstate() != "42501") throw;  // the preflight has looked for them
  }
  return connection;
}

Closed close_fence(pg::Connection& connection, const FenceRequest& request, const std::stop_token& stop) {
  return Closing(connection, request, stop).run();
}

std::optional<std::string> fence_about(pg::Connection& connection) {
  const auto rows = connection.exec(
      "select coalesce(pg_catalog.obj_description(oid, 'pg_namespace'), '') from pg_catalog.pg_namespace "
      "where nspname = 'pgbaton_fence'");
  return rows.rows() == 0 ? std::nullopt : std::optional(rows.text(0, 0));
}

void describe_fence(pg::Connection& connection, const std::string& about) {
  connection.exec("set synchronous_commit = local");
  connection.exec("comment on schema pgbaton_fence is " + quote_literal(about));
}

void admit(pg::Connection& connection, const std::string& about, const std::string& exempt) {
  with_fence_locked(connection, [&] {
    refuse_writes(connection, about, exempt);
    return true;
  });
}

std::vector<QualifiedName> without_fence(pg::Connection& connection, const std::vector<QualifiedName>& wanted) {
  const auto tables = fenced_with(connection, wanted);
  if (tables.empty()) return {};
  const auto rows = connection.exec(fmt::format(
      "select w.number - 1 from unnest({}) with ordinality as w(name, number) where not exists (select from "
      "pg_catalog.pg_trigger t where t.tgrelid = w.name::regclass and t.tgname = 'pgbaton_fence' and t.tgenabled = "
      "'A') "
      "order by 1",
      array_of(tables)));
  std::vector<QualifiedName> missing;
  for (int i = 0; i < rows.rows(); ++i) missing.push_back(tables.at(std::stoul(rows.text(i, 0))));
  return missing;
}

namespace {

// False when there is none, or another one than is meant.
bool change_fence(pg::Connection& connection, const std::optional<std::string>& about, const std::string& statement) {
  return with_fence_locked(connection, [&] {
    const auto found = fence_about(connection);
    if (!found || (about && *found != *about)) return false;
    // Not that of the lock.
    connection.exec(fmt::format("set local lock_timeout = {}", kRemoveLockTimeout.count()));
    connection.exec(statement);
    return true;
  });
}

}  // namespace

bool open_fence(pg::Connection& connection, const std::optional<std::string>& about) {
  return change_fence(connection, about, std::string(sql::fence_open));
}

bool remove_fence(pg::Connection& connection, Deadline deadline, const std::stop_token& stop,
                  const std::optional<std::string>& about) {
  connection.exec("set client_min_messages = warning");
  for (;;) {
    const auto left = connection.exec(
        "select format('%I.%I', n.nspname, c.relname) from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid "
        "= t.tgrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_proc p on p.oid = "
        "t.tgfoid join pg_catalog.pg_namespace f on f.oid = p.pronamespace where f.nspname = 'pgbaton_fence'");
    if (left.rows() == 0) break;
    bool waits = false;
    for (int i = 0; i < left.rows(); ++i) try {
        if (!change_fence(connection, about, "drop trigger if exists pgbaton_fence on " + left.text(i, 0))) return true;
      } catch (const Error& error) {
        if (error.sqlstate() != "55P03" && error.sqlstate() != "42P01") throw;
        waits = true;
      }
    if (!waits) continue;
    if (deadline.passed() || !sleep_for(kBetweenRemovals, stop)) return false;
  }
  change_fence(connection, about, "drop schema if exists pgbaton_fence cascade");
  return true;
}

std::string undo_statements() {
  return fmt::format("{}drop schema pgbaton_fence cascade;\n",
                     sql::fence_open);  // GCC 12 with a sanitizer warns of "+"
}

}  // namespace pgbaton::switchover
