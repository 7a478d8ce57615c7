#include "holders.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/switchover_embedded_sql.hpp>

#include <algorithm>

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kLongestLockTimeout{400};

}  // namespace

std::vector<Holder> load_holders(pg::Connection& connection) {
  const auto rows = connection.exec(std::string(sql::fence_holders));
  std::vector<Holder> holders;
  for (int i = 0; i < rows.rows(); ++i)
    holders.push_back(
        {std::stoi(rows.text(i, 0)), std::stod(rows.text(i, 1)), rows.text(i, 2), rows.text(i, 3), rows.text(i, 4)});
  return holders;
}

std::vector<OpenTransaction> load_open_transactions(pg::Connection& connection) {
  const auto rows = connection.exec(std::string(sql::open_transactions));
  std::vector<OpenTransaction> found;
  for (int i = 0; i < rows.rows(); ++i)
    found.push_back(
        {{std::stoi(rows.text(i, 0)), std::stod(rows.text(i, 1)), rows.text(i, 2), rows.text(i, 3), std::string()},
         rows.text(i, 4),
         rows.text(i, 5) == "t"});
  return found;
}

bool is_client(const Holder& holder) {
  return holder.kind != "autovacuum worker";
}

int end_sessions(pg::Connection& connection, const std::vector<Holder>& holders) {
  int ended = 0;
  for (const auto& holder : holders) {
    if (holder.pid == 0 || !is_client(holder)) continue;
    log::warning("ending a session that has an open write transaction: {}", holder.text);
    connection.exec(fmt::format("select pg_catalog.pg_terminate_backend({})", holder.pid));
    ++ended;
  }
  return ended;
}

void cancel_vacuum(pg::Connection& connection) {
  for (const auto& holder : load_holders(connection)) {
    if (is_client(holder)) continue;
    try {
      connection.exec(fmt::format("select pg_catalog.pg_cancel_backend({})", holder.pid));
    } catch (const Error& error) {
      log::debug("an autovacuum worker could not be cancelled: {}", error.describe());
    }
  }
}

void give_up_on(pg::Connection& connection, const std::vector<Holder>& holders, const std::string& what) {
  std::string names;
  for (const auto& holder : holders) names += (names.empty() ? ": " : "; ") + holder.text;
  throw Error(ErrorKind::timed_out, what + names)
      .side(connection.side())
      .hint(
          "End these transactions (COMMIT PREPARED or ROLLBACK PREPARED for prepared ones), then run it again; "
          "nothing was changed.");
}

Milliseconds longest_lock_timeout(pg::Connection& connection) {
  const auto milliseconds = std::stoll(
      connection.exec("select setting from pg_catalog.pg_settings where name = 'deadlock_timeout'").text(0, 0));
  return std::min(kLongestLockTimeout, Milliseconds(std::max(milliseconds / 2, 1LL)));
}

std::string replaced(std::string_view sql, const std::map<std::string, std::string>& values) {
  std::string text(sql);
  for (const auto& [name, value] : values)
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  return text;
}

std::string array_of(const std::vector<QualifiedName>& tables) {
  std::string list;
  for (const auto& table : tables) list += (list.empty() ? "" : ", ") + quote_literal(table.quoted());
  return fmt::format("array[{}]::text[]", list);
}

std::vector<QualifiedName> fenced_with(pg::Connection& connection, const std::vector<QualifiedName>& tables) {
  if (tables.empty()) return {};
  const auto rows = connection.exec(replaced(sql::fenced, {{":tables", array_of(tables)}}));
  std::vector<QualifiedName> names;
  for (int i = 0; i < rows.rows(); ++i) names.push_back({rows.text(i, 0), rows.text(i, 1)});
  return names;
}

std::string table_without_lock(const std::string& message) {
  const auto begin = message.find("<<"), end = message.rfind(">>");
  return begin == message.npos || end == message.npos ? std::string() : message.substr(begin + 2, end - begin - 2);
}

void abandon(pg::Connection& connection) noexcept {
  try {
    connection.exec("rollback");
  } catch (const std::exception& error) {
    log::debug("fence: {}", error.what());  // the connection is gone, and the transaction with it
  }
}

}  // namespace pgbaton::switchover
