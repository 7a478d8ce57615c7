// The conductor's end of the watchdog (pgbaton/switchover/watchdog.hpp).
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/switchover/settings.hpp>
#include <pgbaton/switchover/watchdog.hpp>

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pgbaton::switchover {

// Error(timed_out): the pause took too long, and the watchdog opens the source again. `what`: how long; "" not known.
Error deadline_passed(const std::string& what);

enum class Undone { open, flipped, unknown };

class Watchdog {
 public:
  // Started, and connected to the source. Error(failed) otherwise.
  Watchdog(const pg::Endpoint& source, const pg::Endpoint& target, std::int64_t attempt, const Settings& settings);
  ~Watchdog();  // without flipped() or undo() before: it opens the source
  Watchdog(const Watchdog&) = delete;

  // Of the session that will put up the fence, and what that fence says of itself: no other one is opened.
  void fence(int backend_pid, const std::string& about);
  // Error(timed_out) when it has given up already, as the next one.
  void require_watching();
  void require_flip();
  void flipped();
  // unknown: it is gone itself.
  Undone undo(const std::string& reason);

 private:
  void say(const std::string& line);
  void require(const std::string& expected);
  // "" when it is gone or the time is over.
  std::string answer(Milliseconds patience);
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffer_;
  bool silent_ = false;  // it has left a question without an answer
};

// RESUME in a PgBouncer's admin console, and the other commands there. Error(failed).
void pgbouncer_command(const std::string& admin_conninfo, const std::string& command,
                       Milliseconds patience = Milliseconds(5'000));

// SET conffile (none when it is empty) and RELOAD. PgBouncer answers with success to both also when it cannot read the
// file, and goes on with what it had: Error(failed) when its databases lead where they led before.
void pgbouncer_route(const std::string& admin_conninfo, const std::string& conffile);

// Names of SHOW DATABASES there.
std::vector<std::string> pgbouncer_databases(const std::string& admin_conninfo);

}  // namespace pgbaton::switchover
