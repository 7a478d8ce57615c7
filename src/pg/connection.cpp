#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/sqlstate.hpp>

#include "conninfo.hpp"
#include "server_error.hpp"
#include "socket.hpp"

namespace pgbaton::pg {
namespace {

// How long a stop or a deadline may go unnoticed.
constexpr Milliseconds kSlice{50};
// A cancel that arrives between two statements is lost: it is sent again at this interval.
constexpr Milliseconds kCancelAgain{1000};
// A backend that ignores a cancel for so long is given up together with its connection.
constexpr Milliseconds kCancelPatience{10'000};
// What libpq itself takes as the least.
constexpr long kLeastConnectSeconds = 2;

void log_notice(void*, const char* message) {
  log::debug("server: {}", one_line(message));
}

long long number(std::string_view digits) {
  long long value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? std::string() : std::string(text);
}

bool is_copy(ExecStatusType status) {
  return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}
bool is_success(ExecStatusType status) {
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY || is_copy(status);
}

// Start parameters: the user's string first, so that ours override it.
struct StartParameters {
  ConninfoItems items;
  std::vector<const char*> keywords, values;

  explicit StartParameters(ConninfoItems all) : items(std::move(all)) {
    for (const auto& [keyword, value] : items) {
      keywords.push_back(keyword.c_str());
      values.push_back(value.c_str());
    }
    keywords.push_back(nullptr);
    values.push_back(nullptr);
  }
};

Deadline connect_deadline(const ConninfoItems& effective) {
  const auto given = find_item(effective, "connect_timeout");
  const long seconds = given.empty() ? 10 : static_cast<long>(number(given));
  // 0 and negative mean "for ever" in libpq.
  return seconds <= 0 ? Deadline::never()
                      : Deadline::after(std::chrono::seconds(std::max(seconds, kLeastConnectSeconds)));
}

// PQconnectPoll until it is decided. False when the time is over.
bool poll_connection(PGconn* c, Deadline deadline) {
  auto wanted = PGRES_POLLING_WRITING;
  while (PQstatus(c) != CONNECTION_BAD) {
    const short events = wanted == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (wait_socket(c, events, deadline.left(kSlice)) == 0) {
      if (deadline.passed()) return false;
      continue;
    }
    wanted = PQconnectPoll(c);
    if (wanted == PGRES_POLLING_OK || wanted == PGRES_POLLING_FAILED) return true;
  }
  return true;
}

// The address or the file that the attempt went to, for a message without a reply.
std::string where(PGconn* c) {
  const char* host = PQhost(c);
  const char* port = PQport(c);
  return fmt::format("\"{}\", port {}", host == nullptr ? "" : host, port == nullptr ? "" : port);
}

// The connection is made by hand, because only a connection object that exists already can be told to be verbose, and
// only the verbose text of a failure holds the SQLSTATE.
std::unique_ptr<PGconn, FinishConnection> connect(const Endpoint& endpoint, std::string_view role,
                                                  const StartParameters& parameters, const ConninfoItems& effective) {
  std::unique_ptr<PGconn, FinishConnection> c(
      PQconnectStartParams(parameters.keywords.data(), parameters.values.data(), 1));
  if (!c) throw Error(ErrorKind::failed, "out of memory").side(endpoint.side);
  PQsetNoticeProcessor(c.get(), &log_notice, nullptr);
  PQsetErrorVerbosity(c.get(), PQERRORS_VERBOSE);
  if (!poll_connection(c.get(), connect_deadline(effective))) {
    const bool several = find_item(effective, "host").find(',') != std::string::npos ||
                         find_item(effective, "hostaddr").find(',') != std::string::npos;
    if (!several) {
      throw connect_error(fmt::format("connection to server at {} failed: no answer in time", where(c.get())),
                          endpoint.side, role);
    }
    // Only the blocking call goes on to the next host after a time-out.
    PQreset(c.get());
  }
  if (PQstatus(c.get()) != CONNECTION_OK) throw connect_error(PQerrorMessage(c.get()), endpoint.side, role);
  PQsetErrorVerbosity(c.get(), PQERRORS_DEFAULT);
  return c;
}

std::string parameter_status(PGconn* c, const char* name) {
  const char* value = PQparameterStatus(c, name);
  return value == nullptr ? std::string() : std::string(value);
}

[[noreturn]] void refuse_pins(Side side, std::string_view found) {
  throw Error(ErrorKind::failed, fmt::format("the server did not take pgbaton's session settings ({})", found))
      .side(side)
      .hint("A pooler that ignores start-up options stands between: connect to the server itself.");
}

// A pooler may swallow start-up options without a word; then the text of values would depend on defaults.
void check_pins(const Connection& connection, const Result* settings) {
  const auto intervals = parameter_status(connection.get(), "IntervalStyle");
  if (intervals != "postgres") refuse_pins(connection.side(), fmt::format("IntervalStyle {}", intervals));
  if (settings == nullptr) return;
  const auto path = settings->value(0, 0);
  if ((!path.empty() && path != "\"\"") || settings->value(0, 1) != "off") {
    refuse_pins(connection.side(), fmt::format("search_path {}, row_security {}", path, settings->value(0, 1)));
  }
}

void pin(Connection& connection, Session session) {
  const auto statements = pinned_statements(connection.server_version());
  if (session == Session::replication) {
    // A walsender's own parser takes one statement at a time.
    for (const auto& statement : statements) connection.exec(statement);
    check_pins(connection, nullptr);
    return;
  }
  std::string all;
  for (const auto& statement : statements) all += statement + ";";
  const auto settings = connection.exec(all + "SELECT current_setting('search_path'), current_setting('row_security')");
  check_pins(connection, &settings);
}

}  // namespace

long long Result::affected() const {
  return number(PQcmdTuples(r_.get()));
}

std::string_view Result::sqlstate() const {
  const char* code = PQresultErrorField(r_.get(), PG_DIAG_SQLSTATE);
  return code == nullptr ? std::string_view() : std::string_view(code);
}

void Canceller::cancel() const noexcept {
  if (!cancel_) return;
  std::array<char, 256> problem{};
  if (PQcancel(cancel_.get(), problem.data(), static_cast<int>(problem.size())) == 0) {
    try {
      log::debug("cancel request failed: {}", problem.data());
    } catch (...) {  // nothing is lost but a debug line
    }
  }
}

Connection Connection::open(const Endpoint& endpoint, std::string_view role, Session session) {
  parse_conninfo(endpoint.conninfo, endpoint.side);  // refuses a wrong one without showing it
  const auto effective = effective_items(endpoint.conninfo);
  ConninfoItems items{{"dbname", endpoint.conninfo}};
  for (auto& item : session_items(endpoint, role, effective)) items.push_back(std::move(item));
  if (session == Session::replication) items.emplace_back("replication", "database");
  auto c = connect(endpoint, role, StartParameters(std::move(items)), effective);
  Connection connection(c.release(), endpoint.side, std::string(role));
  pin(connection, session);
  log::debug("{} connection {}: backend {}", to_string(endpoint.side), role, connection.backend_pid());
  return connection;
}

Result Connection::exec(const std::string& sql) {
  Result result(PQexec(c_.get(), sql.c_str()));
  if (!is_success(result.status())) throw error(result.get(), "");
  return result;
}

Result Connection::exec(const std::string& sql, std::span<const Parameter> parameters) {
  // libpq wants text parameters with a zero byte at their end.
  std::vector<std::string> copies;
  copies.reserve(parameters.size());
  std::vector<const char*> values;
  for (const auto& parameter : parameters) {
    if (parameter) copies.emplace_back(*parameter);
    values.push_back(parameter ? copies.back().c_str() : nullptr);
  }
  Result result(PQexecParams(c_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(), nullptr,
                             nullptr, 0));
  if (!is_success(result.status())) throw error(result.get(), "");
  return result;
}

namespace {

// The last result once all have arrived; nullptr while the server still works. Keeps the latest in `last`.
bool collect_results(PGconn* c, std::unique_ptr<PGresult, ClearResult>& last) {
  while (PQisBusy(c) == 0) {
    std::unique_ptr<PGresult, ClearResult> next(PQgetResult(c));
    if (!next) return true;
    last = std::move(next);
    if (is_copy(PQresultStatus(last.get())) || PQstatus(c) == CONNECTION_BAD) return true;
  }
  return false;
}

enum class Ended { by_itself, by_stop, by_deadline };

Error ended_error(Ended ended, Side side, std::string_view role) {
  if (ended == Ended::by_stop) {
    return Error(ErrorKind::failed, "interrupted").side(side).hint("Run the same command again to go on.");
  }
  return Error(ErrorKind::timed_out, fmt::format("the server did not finish in time ({})", role)).side(side);
}

}  // namespace

Result Connection::exec_until(const std::string& sql, Deadline deadline, const std::stop_token& stop) {
  PGconn* c = c_.get();
  if (PQsendQuery(c, sql.c_str()) == 0) throw error(nullptr, "");
  std::unique_ptr<PGresult, ClearResult> last;
  Ended ended = Ended::by_itself;
  Deadline give_up = Deadline::never(), cancel_again = Deadline::never();
  while (!collect_results(c, last)) {
    if (ended == Ended::by_itself && (stop.stop_requested() || deadline.passed())) {
      ended = stop.stop_requested() ? Ended::by_stop : Ended::by_deadline;
      give_up = Deadline::after(kCancelPatience);
      cancel_again = Deadline::after(Milliseconds(0));
    }
    if (give_up.passed()) {
      // The connection is of no use any more, and must not block the next call on it.
      ::shutdown(PQsocket(c), SHUT_RDWR);
      throw ended_error(ended, side_, role_);
    }
    if (cancel_again.passed()) {
      canceller().cancel();
      cancel_again = Deadline::after(kCancelAgain);
    }
    wait_socket(c, POLLIN, ended == Ended::by_itself ? deadline.left(kSlice) : kSlice);
    if (PQconsumeInput(c) == 0) throw error(nullptr, "");
  }
  Result result(last.release());
  if (is_success(result.status())) return result;
  if (ended != Ended::by_itself && result.sqlstate() == "57014") throw ended_error(ended, side_, role_);
  throw error(result.get(), "");
}

Error Connection::error(const PGresult* result, std::string_view doing) const {
  std::string text = result == nullptr ? std::string() : field(result, PG_DIAG_MESSAGE_PRIMARY);
  const auto detail = field(result, PG_DIAG_MESSAGE_DETAIL);
  if (text.empty()) {
    text = one_line(PQerrorMessage(c_.get()));
    if (text.empty()) text = "the connection was lost";
  }
  if (!detail.empty()) text += fmt::format(" ({})", detail);
  const auto state = field(result, PG_DIAG_SQLSTATE);
  Error error(ErrorKind::failed, doing.empty() ? text : fmt::format("{}: {}", doing, text));
  const auto servers_hint = field(result, PG_DIAG_MESSAGE_HINT);
  error.side(side_).sqlstate(state).action(classify(state)).hint(servers_hint.empty() ? advice(state) : servers_hint);
  error.key(key_of_detail(detail));
  const auto table = field(result, PG_DIAG_TABLE_NAME);
  if (!table.empty()) error.table(QualifiedName{field(result, PG_DIAG_SCHEMA_NAME), table}.quoted());
  return error;
}

}  // namespace pgbaton::pg
