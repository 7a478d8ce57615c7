#include "writer.hpp"

#include <chrono>

namespace pgbaton::schemas {

using testing::Session;
using testing::SqlError;

namespace {

// Constraints, deadlocks, locks not had in time, a TRUNCATE with deferred checks pending, one row twice in an upsert.
bool is_chance(const SqlError& error) {
  const auto& sqlstate = error.sqlstate;
  const auto group = sqlstate.substr(0, 2);
  const std::string text = error.what();
  // A table that others reference cannot be truncated alone; two sessions add the same column, or the one that was to
  // add it did not get its lock.
  if (sqlstate == "42701" || (sqlstate == "42703" && text.find("later") != text.npos) ||
      (sqlstate == "0A000" && text.find("truncate") != text.npos))
    return true;
  return group == "23" || group == "40" || sqlstate == "55P03" || sqlstate == "55006" || sqlstate == "21000";
}

std::string escape_copy(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\')
      text += "\\\\";
    else if (c == '\t')
      text += "\\t";
    else if (c == '\n')
      text += "\\n";
    else if (c == '\r')
      text += "\\r";
    else
      text += c;
  }
  return text;
}

void copy(Session& session, const Step& step) {
  std::string data;
  for (const auto& row : session.query(step.copy_rows)) {
    for (std::size_t i = 0; i < row.size(); ++i) data += (i == 0 ? "" : "\t") + (row[i] ? escape_copy(*row[i]) : "\\N");
    data += "\n";
  }
  auto* connection = session.get();
  PGresult* begun = PQexec(connection, step.sql.c_str());
  const bool ok = PQresultStatus(begun) == PGRES_COPY_IN;
  const char* state = PQresultErrorField(begun, PG_DIAG_SQLSTATE);
  const SqlError error(PQresultErrorMessage(begun), state == nullptr ? "" : state);
  PQclear(begun);
  if (!ok) throw error;
  if (PQputCopyData(connection, data.data(), static_cast<int>(data.size())) != 1 ||
      PQputCopyEnd(connection, nullptr) != 1)
    throw SqlError(PQerrorMessage(connection), "");
  session.finish();
}

void run_step(Session& session, const Step& step) {
  if (step.copy_rows.empty())
    session.exec(step.sql);
  else
    copy(session, step);
}

}  // namespace

bool run_transaction(Session& session, const Transaction& transaction) {
  bool savepoint = false, failed = false;
  for (const auto& step : transaction) {
    if (failed) break;
    try {
      run_step(session, step);
      if (step.sql == "savepoint s") savepoint = true;
      if (step.sql == "release s") savepoint = false;
    } catch (const SqlError& error) {
      if (!is_chance(error)) {
        if (PQtransactionStatus(session.get()) != PQTRANS_IDLE) session.exec("rollback");
        throw SqlError(std::string(error.what()).substr(0, 1500), error.sqlstate);
      }
      failed = PQtransactionStatus(session.get()) != PQTRANS_IDLE;
      if (!failed) return false;
      if (savepoint) {
        session.exec("rollback to s");
        failed = false;
      }
    }
  }
  if (failed) session.exec("rollback");
  return !failed && transaction.back().sql != "rollback";
}

Writers::Writers(const std::string& conninfo, const std::vector<Schema>& schemas, std::uint64_t seed, int connections)
    : schemas_(schemas) {
  for (int i = 0; i < connections; ++i)
    threads_.emplace_back(&Writers::run, this, conninfo, seed * 31 + static_cast<std::uint64_t>(i));
}

void Writers::run(const std::string& conninfo, std::uint64_t seed) {
  Random random(seed);
  try {
    Session session(conninfo);
    session.exec("set lock_timeout = '3s'; set client_min_messages = warning");
    const Schema* schema = nullptr;
    while (!stop_) {
      if (schema == nullptr || chance(random, 30)) {
        schema = &any_of(random, schemas_);
        session.exec("set search_path = " + schema->name + ", public");
      }
      try {
        if (run_transaction(session, any_transaction(random, schema->tables))) ++committed_;
      } catch (const SqlError& error) {
        const std::lock_guard lock(mutex_);
        const std::string text = error.what();
        auto& kept = errors_[error.sqlstate + " " + text.substr(0, text.find('\n'))];
        if (kept.count++ == 0) kept.example = text;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(pick(random, 0, pause_milliseconds_)));
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    ++errors_[error.what()].count;
  }
}

void Writers::stop() {
  stop_ = true;
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

std::map<std::string, Writers::Failure> Writers::errors() {
  const std::lock_guard lock(mutex_);
  return errors_;
}

}  // namespace pgbaton::schemas
