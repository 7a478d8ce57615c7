#include "session.hpp"

#include <cstdlib>

namespace pgbaton::testing {
namespace {

struct Clear {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using Result = std::unique_ptr<PGresult, Clear>;

[[noreturn]] void fail(PGconn* connection, const PGresult* result, const std::string& sql) {
  const char* state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const std::string message = result ? PQresultErrorMessage(result) : PQerrorMessage(connection);
  throw SqlError(message + " in: " + sql, state ? state : "");
}

Result run(PGconn* connection, const std::string& sql) {
  Result result(PQexec(connection, sql.c_str()));
  const auto status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(connection, result.get(), sql);
  return result;
}

std::string quote(const std::string& text, char mark) {
  std::string result(1, mark);
  for (const char c : text) result.append(c == mark ? 2 : 1, c);
  return result + mark;
}

}  // namespace

Session::Session(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) throw SqlError(PQerrorMessage(connection_.get()), "");
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
}

Rows Session::query(const std::string& sql) {
  const auto result = run(get(), sql);
  Rows rows;
  for (int r = 0; r < PQntuples(result.get()); ++r) {
    Row& row = rows.emplace_back();
    for (int c = 0; c < PQnfields(result.get()); ++c) {
      if (PQgetisnull(result.get(), r, c)) {
        row.emplace_back();
      } else {
        row.emplace_back(PQgetvalue(result.get(), r, c));
      }
    }
  }
  return rows;
}

std::string Session::scalar(const std::string& sql) {
  const auto rows = query(sql);
  return rows.empty() || rows[0].empty() ? "" : rows[0][0].value_or("");
}

long long Session::number(const std::string& sql) {
  const auto text = scalar(sql);
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0) throw std::runtime_error("not a number: '" + text + "' from: " + sql);
  return value;
}

long long Session::exec(const std::string& sql) {
  const auto result = run(get(), sql);
  return std::atoll(PQcmdTuples(result.get()));
}

void Session::send(const std::string& sql) {
  if (PQsendQuery(get(), sql.c_str()) != 1) fail(get(), nullptr, sql);
}

void Session::finish() {
  while (Result result{PQgetResult(get())}) {
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(get(), result.get(), "(sent statement)");
  }
}

std::string quote_literal(const std::string& text) {
  return quote(text, '\'');
}
std::string quote_identifier(const std::string& name) {
  return quote(name, '"');
}

}  // namespace pgbaton::testing
