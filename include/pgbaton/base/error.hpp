// The one error type. Its kinds are the rows of the exit table; context is added while unwinding:
//
//   throw Error(ErrorKind::rejected, "duplicate key").side(Side::target).sqlstate("23505").table(t).lsn(commit_lsn)
//       .hint("Remove the row on the target, then run the same command again.");
//
// Thrown inside modules; no error codes cross a border. Caught only at thread entries, the reconnect loop and main.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pgbaton {

enum class ErrorKind {
  failed,          // 1: failed or interrupted; nothing lost, run it again
  usage,           // 2: usage or configuration, no such replica
  preflight,       // 3: preflight found a blocker
  boundary_lost,   // 4: slot or history gone; a new bootstrap is needed
  timed_out,       // 5
  differences,     // 6
  held_elsewhere,  // 7: another process holds the replica, or fenced
  rejected,        // 8: schema drift or data that the target rejects; a person must act
};

int exit_code(ErrorKind kind);
std::string_view to_string(ErrorKind kind);

enum class Side { local, source, target };
std::string_view to_string(Side side);

// What may be done about it. `retry`: the same work may pass on a new connection or a moment later.
// `stop`: a person or another command must act. `bug`: our own statement was wrong.
enum class Action { retry, stop, bug };

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorKind kind, const std::string& message,
                 std::source_location where = std::source_location::current());

  Error& side(Side value) &;
  Error&& side(Side value) &&;
  Error& sqlstate(std::string_view value) &;
  Error&& sqlstate(std::string_view value) &&;
  Error& table(std::string_view value) &;  // quoted, schema-qualified
  Error&& table(std::string_view value) &&;
  Error& key(std::string_view value) &;  // "(id)=(7)"
  Error&& key(std::string_view value) &&;
  Error& lsn(Lsn value) &;
  Error&& lsn(Lsn value) &&;
  Error& hint(std::string_view value) &;  // what the operator does next; one sentence
  Error&& hint(std::string_view value) &&;
  Error& action(Action value) &;
  Error&& action(Action value) &&;
  // Puts "doing X: " in front of the message.
  Error& context(std::string_view doing) &;

  ErrorKind kind() const noexcept { return kind_; }
  Side side() const noexcept { return side_; }
  Action action() const noexcept { return action_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& sqlstate() const noexcept { return sqlstate_; }
  const std::string& table() const noexcept { return table_; }
  const std::string& key() const noexcept { return key_; }
  Lsn lsn() const noexcept { return lsn_; }
  bool has_hint() const noexcept { return !hint_.empty(); }
  // The one given, else what is right for every error of its kind: never empty.
  std::string hint() const;
  const std::source_location& where() const noexcept { return where_; }
  // One line, breaks and tabs of the message folded: message, then (side, SQLSTATE, table, key, LSN) as far as they are
  // known. No hint.
  std::string describe() const;
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  Side side_ = Side::local;
  Action action_ = Action::stop;
  std::string message_, sqlstate_, table_, key_, hint_;
  Lsn lsn_;
  std::source_location where_;
};

}  // namespace pgbaton
