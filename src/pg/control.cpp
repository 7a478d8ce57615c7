#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <pgbaton/base/log.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/pg/sqlstate.hpp>
#include <typeinfo>

#include "conninfo.hpp"
#include "server_error.hpp"

namespace pgbaton::pg {
namespace {

Error failed(Side side, std::string_view doing, std::string_view message, std::string_view state) {
  auto text = one_line(message);
  if (!doing.empty()) text = fmt::format("{}: {}", doing, text);
  Error error(ErrorKind::failed, text);
  error.side(side).sqlstate(state).action(classify(state)).hint(advice(state));
  // Beside finish, drop or the end of a switchover: the state goes with the last replica.
  if (state == "42P01" && message.find("\"pgbaton.") != message.npos)
    error.hint("The replica has ended or changed sides meanwhile: `pgbaton status` tells what there is.");
  return error;
}

// What libpqxx says by itself of a connection that is gone speaks of its own insides ("Could not obtain client
// encoding", "reactivation is inhibited"), and it is the same event in different classes.
bool is_own_word_for_lost(std::string_view message) {
  constexpr std::array<std::string_view, 8> kWords{
      "client encoding",    "eactivat",          "o connection to database", "on no connection",
      "without connection", "Broken connection", "onnection lost",           "Connection to database failed"};
  return std::ranges::any_of(kWords, [&](auto part) { return message.find(part) != message.npos; });
}

Error lost(Side side, std::string_view doing, std::string_view message) {
  const auto ours = fmt::format("the connection to the {} was lost", to_string(side));
  return failed(side, doing, is_own_word_for_lost(message) ? ours : std::string(message), "");
}

// libpqxx 6 keeps no SQLSTATE in these classes.
std::string_view state_of(const pqxx::transaction_rollback& e) {
  if (dynamic_cast<const pqxx::deadlock_detected*>(&e) != nullptr) return "40P01";
  if (dynamic_cast<const pqxx::statement_completion_unknown*>(&e) != nullptr) return "40003";
  return "40001";
}

void pin(Control& connection, Side side) {
  control(side, "pinning the session", [&] {
    pqxx::nontransaction session(connection);
    for (const auto& statement : pinned_statements(connection.server_version())) session.exec(statement);
  });
}

}  // namespace

std::unique_ptr<Control> open_control(const Endpoint& endpoint, std::string_view role) {
  auto items = parse_conninfo(endpoint.conninfo, endpoint.side);
  for (const auto& [keyword, value] : session_items(endpoint, role, effective_items(endpoint.conninfo))) {
    std::erase_if(items, [&](const auto& item) { return item.first == keyword; });
    items.emplace_back(keyword, value);
  }
  std::unique_ptr<Control> control_connection;
  try {
    control_connection = std::make_unique<Control>(build_conninfo(items));
  } catch (const pqxx::broken_connection& e) {
    // libpqxx has only the text. A second attempt over libpq tells the SQLSTATE; when that one passes, so may the next.
    Connection::open(endpoint, role);
    throw failed(endpoint.side, connecting(role), e.what(), "");
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  control_connection->inhibit_reactivation(true);
#pragma GCC diagnostic pop
  pin(*control_connection, endpoint.side);
  return control_connection;
}

bool revive(Control& connection, const Endpoint& endpoint, std::string_view role) {
  try {
    pqxx::nontransaction(connection).exec1("select 1");
    return false;
  } catch (const pqxx::failure& failure) {
    log::debug("{} connection {} is gone: {}", to_string(endpoint.side), role, one_line(failure.what()));
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection.disconnect();
  Connection::open(endpoint, role);  // tells in our own words, with the SQLSTATE, why it cannot be
  control(endpoint.side, "connecting again", [&] {
    connection.inhibit_reactivation(false);
    connection.activate();
    connection.inhibit_reactivation(true);
  });
#pragma GCC diagnostic pop
  pin(connection, endpoint.side);
  return true;
}

std::string sqlstate_of(const pqxx::sql_error& error) {
  if (!error.sqlstate().empty()) return error.sqlstate();
  return dynamic_cast<const pqxx::insufficient_privilege*>(&error) != nullptr ? "42501" : "XX000";
}

void rethrow(Side side, std::string_view doing) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const pqxx::sql_error& e) {
    throw failed(side, doing, e.what(), sqlstate_of(e));
  } catch (const pqxx::transaction_rollback& e) {
    throw failed(side, doing, e.what(), state_of(e));
  } catch (const pqxx::in_doubt_error&) {
    // What the caller committed carries its own progress or epoch: look again.
    const auto text = fmt::format("the connection to the {} was lost during COMMIT", to_string(side));
    throw failed(side, doing, text, "");
  } catch (const pqxx::broken_connection& e) {
    throw lost(side, doing, e.what());
  } catch (const pqxx::pqxx_exception& e) {
    if (is_own_word_for_lost(e.base().what())) throw lost(side, doing, e.base().what());
    throw failed(side, doing, e.base().what(), "XX000").sqlstate("").action(Action::bug).hint("");
  }
}

}  // namespace pgbaton::pg
