// The fence: ENABLE ALWAYS statement triggers in schema pgbaton_fence that refuse every write (sql/fence_close.sql).
// A read-only default is none: open sessions, BEGIN READ WRITE and COMMIT PREPARED still write.
//
// What a fence does not hold, and what is done about it before a flip: seal.hpp.
//
// Closing waits for transactions that have written, without standing in a queue of locks for long: a try that does not
// get its locks within a fraction of deadlock_timeout is rolled back, so that the application never becomes the victim
// of a deadlock, and its tables are tried in another order. Example: the application locks `account` before `history`,
// the first try holds `history` and waits for `account`, whose holders wait for `history`; the next try takes `account`
// first, and then nobody can hold `history`.
//
// Whoever opens a fence that he did not put up himself a moment ago says which one he means (its comment names the
// attempt): one that was held up may come back when another switchover has fenced, and flipped. An advisory lock stands
// around every look and the change that follows from it. No commit of a fence waits for a synchronous standby: one that
// is away would keep writers out for ever.
//
// A statement trigger does not fire for a statement that names another table and changes rows of this one: so whatever
// the tables inherit from is fenced as well, and their partitions (sql/switchover/fenced.sql).
//
// Opening replaces the function, which needs no lock on any table: writers go on in milliseconds, whatever readers do.
// The triggers, which let everything pass by then, are removed afterwards, one by one.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/switchover/settings.hpp>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::switchover {

// For the functions below: event triggers of the application do not fire for what they do, unless they are ENABLE
// ALWAYS or the role may not see to that.
pg::Connection open_fence_session(const pg::Endpoint& server, std::string_view role);

struct FenceRequest {
  std::vector<QualifiedName> tables;
  std::string about;   // stands as the comment of the schema
  std::string exempt;  // sessions whose application_name begins with it; "" none
  Milliseconds transaction_wait{10'000};
  bool terminate = true;  // what is open then; false: Error(timed_out)
  // Waits also for transactions that hold none of the tables and have written all the same: they may be making tables.
  bool all_transactions = false;
  // Called once, when long transactions have ended and writers are about to wait.
  std::function<void()> before_waiting{};
  // Called again and again while a seal waits; may throw.
  std::function<void()> while_waiting{};
};

struct Closed {
  Clock::time_point since;  // writers wait from then on
  int attempts = 0, terminated = 0;
};

// Error(timed_out) names who holds locks; nothing of the fence is left then.
Closed close_fence(pg::Connection& connection, const FenceRequest& request, const std::stop_token& stop);
// What the fence says of itself; nullopt when there is none.
std::optional<std::string> fence_about(pg::Connection& connection);
void describe_fence(pg::Connection& connection, const std::string& about);
// A fence that stands lets other sessions pass from now on, and says something else of itself. Needs no lock on a
// table.
void admit(pg::Connection& connection, const std::string& about, const std::string& exempt);
// Those that it does not hold, of the tables and of what has to be fenced with them.
std::vector<QualifiedName> without_fence(pg::Connection& connection, const std::vector<QualifiedName>& tables);
// False when there is none, or, with `about`, when it is another one by now.
bool open_fence(pg::Connection& connection, const std::optional<std::string>& about = std::nullopt);
// False when triggers are left at the deadline, because readers hold their tables. With `about`: only while it is that
// one.
bool remove_fence(pg::Connection& connection, Deadline deadline, const std::stop_token& stop,
                  const std::optional<std::string>& about = std::nullopt);
// For a person with psql.
std::string undo_statements();

}  // namespace pgbaton::switchover
