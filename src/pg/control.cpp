#include <fmt/format.h>

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
  return Error(ErrorKind::failed, text).side(side).sqlstate(state).action(classify(state)).hint(advice(state));
}

// libpqxx 6 keeps no SQLSTATE in these classes.
std::string_view state_of(const pqxx::transaction_rollback& e) {
  if (dynamic_cast<const pqxx::deadlock_detected*>(&e) != nullptr) return "40P01";
  if (dynamic_cast<const pqxx::statement_completion_unknown*>(&e) != nullptr) return "40003";
  return "40001";
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
    throw failed(endpoint.side, fmt::format("connecting ({})", role), e.what(), "");
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  control_connection->inhibit_reactivation(true);
#pragma GCC diagnostic pop
  control(endpoint.side, "pinning the session", [&] {
    pqxx::nontransaction session(*control_connection);
    for (const auto& statement : pinned_statements(control_connection->server_version())) session.exec(statement);
  });
  return control_connection;
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
  } catch (const pqxx::in_doubt_error& e) {
    // The connection was lost during COMMIT. What the caller committed carries its own progress or epoch: look again.
    throw failed(side, doing, e.what(), "");
  } catch (const pqxx::broken_connection& e) {
    throw failed(side, doing, e.what(), "");
  } catch (const pqxx::pqxx_exception& e) {
    throw failed(side, doing, e.base().what(), "XX000").sqlstate("").action(Action::bug).hint("");
  }
}

}  // namespace pgbaton::pg
