#include "fence.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/switchover_embedded_sql.hpp>

#include <algorithm>
#include <map>

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kFirstLockTimeout{50}, kLongestLockTimeout{400};
// Between tries, so that the writers who waited get on.
constexpr Milliseconds kBetweenTries{50};
// Beyond the wait for transactions: for tables whose order of locks has to be found.
constexpr Milliseconds kPatience{20'000};
// A transaction that is open for so long is not asked for a lock, which others would queue behind, but waited for.
constexpr double kLongSeconds = 1.0;
// Removing a trigger waits for readers; writers queue behind it for so long.
constexpr Milliseconds kRemoveLockTimeout{100}, kBetweenRemovals{300};

struct Holder {
  int pid = 0;
  double seconds = 0;
  std::string kind, text, tables;
};

std::vector<Holder> load_holders(pg::Connection& connection) {
  const auto rows = connection.exec(std::string(sql::fence_holders));
  std::vector<Holder> holders;
  for (int i = 0; i < rows.rows(); ++i)
    holders.push_back(
        {std::stoi(rows.text(i, 0)), std::stod(rows.text(i, 1)), rows.text(i, 2), rows.text(i, 3), rows.text(i, 4)});
  return holders;
}

std::string array_of(const std::vector<QualifiedName>& tables) {
  std::string list;
  for (const auto& table : tables) list += (list.empty() ? "" : ", ") + quote_literal(table.quoted());
  return fmt::format("array[{}]::text[]", list);
}

std::string replaced(std::string_view sql, const std::map<std::string, std::string>& values) {
  std::string text(sql);
  for (const auto& [name, value] : values)
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  return text;
}

// Empty for none: a target without any of the tables.
std::vector<QualifiedName> fenced_with(pg::Connection& connection, const std::vector<QualifiedName>& tables) {
  if (tables.empty()) return {};
  const auto rows = connection.exec(replaced(sql::fenced, {{":tables", array_of(tables)}}));
  std::vector<QualifiedName> names;
  for (int i = 0; i < rows.rows(); ++i) names.push_back({rows.text(i, 0), rows.text(i, 1)});
  return names;
}

void abandon(pg::Connection& connection) noexcept {
  try {
    connection.exec("rollback");
  } catch (const std::exception& error) {
    log::debug("fence: {}", error.what());  // the connection is gone, and the transaction with it
  }
}

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
      : connection_(connection), request_(request), stop_(stop), order_(fenced_with(connection, request.tables)) {
    const auto milliseconds = std::stoll(
        connection.exec("select setting from pg_catalog.pg_settings where name = 'deadlock_timeout'").text(0, 0));
    longest_ = std::min(kLongestLockTimeout, Milliseconds(std::max(milliseconds / 2, 1LL)));
  }

  Closed run() {
    const auto wait = Deadline::after(request_.transaction_wait);
    const auto end = Deadline::after(request_.transaction_wait + kPatience);
    auto timeout = std::min(kFirstLockTimeout, longest_);
    for (;;) {
      if (stop_.stop_requested()) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
      const auto holders = load_holders(connection_);
      if (long_ones(holders, wait)) continue;
      // Held back from here on, they wait through all tries.
      if (result_.attempts == 0 || !request_.before_waiting) result_.since = Clock::now();
      if (result_.attempts++ == 0 && request_.before_waiting) request_.before_waiting();
      if (attempt(timeout)) return result_;
      timeout = std::min(timeout * 2, longest_);
      if (end.passed()) give_up(load_holders(connection_), "the fence did not get its locks");
      if (wait.passed()) end_holders(load_holders(connection_), waited_for_, 0.3);
      sleep_for(kBetweenTries, stop_);
    }
  }

 private:
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
    if (found.front().pid == 0 || !request_.terminate) give_up(found, "write transactions are still open");
    end_holders(found, {}, kLongSeconds);
    return false;
  }

  static bool is_client(const Holder& holder) { return holder.kind != "autovacuum worker"; }

  [[noreturn]] void give_up(const std::vector<Holder>& holders, const std::string& what) {
    std::string names;
    for (const auto& holder : holders) names += (names.empty() ? ": " : "; ") + holder.text;
    throw Error(ErrorKind::timed_out, what + names)
        .side(connection_.side())
        .hint(
            "End these transactions (COMMIT PREPARED or ROLLBACK PREPARED for prepared ones), then run it again; "
            "nothing was changed.");
  }

  // Of one table, or ("") all; those whose transaction is older.
  void end_holders(const std::vector<Holder>& holders, const std::string& table, double seconds) {
    for (const auto& holder : holders) {
      if (holder.pid == 0 || !request_.terminate || !is_client(holder) || holder.seconds < seconds) continue;
      if (!table.empty() && (" " + holder.tables + " ").find(" " + table + " ") == std::string::npos) continue;
      log::warning("ending a session that has an open write transaction: {}", holder.text);
      connection_.exec(fmt::format("select pg_catalog.pg_terminate_backend({})", holder.pid));
      ++result_.terminated;
    }
  }

  // An autovacuum worker only steps aside for one who waits longer than we do.
  void cancel_vacuum() {
    for (const auto& holder : load_holders(connection_)) {
      if (is_client(holder)) continue;
      try {
        connection_.exec(fmt::format("select pg_catalog.pg_cancel_backend({})", holder.pid));
      } catch (const Error& error) {
        log::debug("an autovacuum worker could not be cancelled: {}", error.describe());
      }
    }
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
      const auto& text = error.message();
      const auto begin = text.find("<<"), end = text.rfind(">>");
      if (begin != text.npos && end != text.npos) first(text.substr(begin + 2, end - begin - 2));
      log::debug("fence, try {}: {}", result_.attempts, text);
      cancel_vacuum();
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

Closed close_fence(pg::Connection& connection, const FenceRequest& request, const std::stop_token& stop) {
  return Closing(connection, request, stop).run();
}

void verify_fence(pg::Connection& connection, const std::vector<QualifiedName>& tables) {
  const auto fenced = fenced_with(connection, tables);
  connection.exec(replaced(sql::fence_verify, {{":tables", array_of(fenced)}}));
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
