// The control plane: libpqxx connections from one factory. libpqxx 6.4 reconnects silently by default, which would lose
// locks and settings; inhibit_reactivation(true) forbids it.
#pragma once
#include <memory>
#include <pgbaton/pg/endpoint.hpp>
#include <pqxx/pqxx>
#include <string>
#include <string_view>

namespace pgbaton::pg {

using Control = pqxx::connection;

// Connected and pinned as Connection::open() does, same errors.
std::unique_ptr<Control> open_control(const Endpoint& endpoint, std::string_view role);

// Asks the server for a sign of life; connects the same object anew, pinned as before, when there is none. No
// transaction may be open. Session state (advisory locks) is lost with the old connection; true when that happened.
// Errors as open_control().
bool revive(Control& connection, const Endpoint& endpoint, std::string_view role);

// error.sqlstate(), also where libpqxx 6 forgets it (42501 has a class of its own, without the code).
std::string sqlstate_of(const pqxx::sql_error& error);

// Rethrows the pqxx exception in flight as Error: side, SQLSTATE, action. Errors of ours pass through. Call in a catch.
[[noreturn]] void rethrow(Side side, std::string_view doing);

// Runs `work` and converts pqxx exceptions: control(Side::target, "reading progress", [&] { … });
template <typename Work>
auto control(Side side, std::string_view doing, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (...) {
    rethrow(side, doing);
  }
}

}  // namespace pgbaton::pg
