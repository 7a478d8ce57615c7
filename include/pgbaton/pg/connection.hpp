// libpq for the data plane: the replication protocol, COPY, pipelines and whatever shares a transaction with rows.
// (The control plane uses libpqxx, see control.hpp.)
//
// A Connection belongs to one thread at a time; only Canceller may be used from another. Closing is done by the
// destructor; it never throws. Every wait is a poll() that also watches a stop token or a deadline where the call takes
// one. Errors are Error(failed) with side, SQLSTATE and action from classify(); a lost connection has action retry.
#pragma once
#include <libpq-fe.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/time.hpp>

#include <memory>
#include <optional>
#include <pgbaton/pg/endpoint.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::pg {

struct ClearResult {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
struct FinishConnection {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};

class Result {
 public:
  explicit Result(PGresult* r) : r_(r) {}
  ExecStatusType status() const { return PQresultStatus(r_.get()); }
  int rows() const { return PQntuples(r_.get()); }
  int columns() const { return PQnfields(r_.get()); }
  bool is_null(int row, int column) const { return PQgetisnull(r_.get(), row, column) != 0; }
  std::string_view value(int row, int column) const {
    return {PQgetvalue(r_.get(), row, column), static_cast<std::size_t>(PQgetlength(r_.get(), row, column))};
  }
  std::string text(int row, int column) const { return std::string(value(row, column)); }
  // Rows touched by INSERT, UPDATE, DELETE or COPY; every caller reads it.
  long long affected() const;
  std::string_view sqlstate() const;
  PGresult* get() const { return r_.get(); }

 private:
  std::unique_ptr<PGresult, ClearResult> r_;
};

using Parameter = std::optional<std::string_view>;  // nullopt is NULL; text format

// Sends PQcancel from another thread or a signal path. Outlives its Connection safely.
class Canceller {
 public:
  Canceller() = default;
  explicit Canceller(PGconn* c) : cancel_(PQgetCancel(c), &PQfreeCancel) {}
  void cancel() const noexcept;

 private:
  std::shared_ptr<PGcancel> cancel_;
};

enum class Session { plain, replication };

class Connection {
 public:
  // Connects (bounded by connect_timeout, 10 s unless the conninfo says otherwise), pins the session. `role` is a short
  // word: "copy-3", "apply", "slot". Throws Error(failed): action retry for network trouble and start-up or shutdown of
  // the server, stop for authentication, unknown database and the like.
  static Connection open(const Endpoint& endpoint, std::string_view role, Session session = Session::plain);

  // One statement (or several with semicolons), simple protocol. The last result. Throws on any error result.
  Result exec(const std::string& sql);
  // One statement with text parameters.
  Result exec(const std::string& sql, std::span<const Parameter> parameters);
  // As exec(), but cancels (PQcancel, then reads the outcome) when the stop is requested or the deadline passes:
  // Error(failed) "interrupted", or Error(timed_out). The server side has ended when it returns or throws.
  Result exec_until(const std::string& sql, Deadline deadline, const std::stop_token& stop);

  int server_version() const { return PQserverVersion(c_.get()); }  // 150004
  int backend_pid() const { return PQbackendPID(c_.get()); }
  Side side() const { return side_; }
  const std::string& role() const { return role_; }
  Canceller canceller() const { return Canceller(c_.get()); }
  PGconn* get() const { return c_.get(); }  // for COPY and pipeline classes of pg/ and the walsender reader
  bool in_transaction() const { return PQtransactionStatus(c_.get()) != PQTRANS_IDLE; }

  // Error with this connection's side and the SQLSTATE and message of `result` (or of the connection when null).
  Error error(const PGresult* result, std::string_view doing) const;

 private:
  Connection(PGconn* c, Side side, std::string role) : c_(c), side_(side), role_(std::move(role)) {}
  std::unique_ptr<PGconn, FinishConnection> c_;
  Side side_;
  std::string role_;
};

}  // namespace pgbaton::pg
