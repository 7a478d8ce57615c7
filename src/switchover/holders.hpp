// Who keeps a fence from closing, or a flip from being sure: sessions with open transactions. Between fence.cpp and
// seal.cpp.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/connection.hpp>

#include <map>
#include <string>
#include <vector>

namespace pgbaton::switchover {

struct Holder {
  int pid = 0;  // 0: a prepared transaction
  double seconds = 0;
  std::string kind, text, tables;
};

// Those that hold locks on user tables which a fence has to wait for.
std::vector<Holder> load_holders(pg::Connection& connection);

struct OpenTransaction {
  Holder session;
  std::string xid;
  bool lasting = false;  // something may come of it that no fence refuses
};
// Of other sessions of this database, as of now: in a transaction, as of the first call there.
std::vector<OpenTransaction> load_open_transactions(pg::Connection& connection);

bool is_client(const Holder& holder);
// Returns how many: none that is prepared, or autovacuum's.
int end_sessions(pg::Connection& connection, const std::vector<Holder>& holders);
// An autovacuum worker only steps aside for one who waits longer than we do.
void cancel_vacuum(pg::Connection& connection);
// Error(timed_out) that names them.
[[noreturn]] void give_up_on(pg::Connection& connection, const std::vector<Holder>& holders, const std::string& what);

// Of the longest that a fence may stand in a queue of locks: a fraction of deadlock_timeout.
Milliseconds longest_lock_timeout(pg::Connection& connection);

// Literals in the place of names with colons.
std::string replaced(std::string_view sql, const std::map<std::string, std::string>& values);
std::string array_of(const std::vector<QualifiedName>& tables);
// The tables, and what has to be fenced with them. Empty for none: a target without any of the tables.
std::vector<QualifiedName> fenced_with(pg::Connection& connection, const std::vector<QualifiedName>& tables);
// Of a statement that did not get a lock: on which table.
std::string table_without_lock(const std::string& message);
void abandon(pg::Connection& connection) noexcept;

}  // namespace pgbaton::switchover
