// A plain libpq connection for tests, knowing nothing of the product.
#pragma once
#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace pgbaton::testing {

using Value = std::optional<std::string>;
using Row = std::vector<Value>;
using Rows = std::vector<Row>;

struct SqlError : std::runtime_error {
  SqlError(const std::string& message, std::string state) : std::runtime_error(message), sqlstate(std::move(state)) {}
  std::string sqlstate;  // "" when the connection is gone
};

// Belongs to one thread at a time.
class Session {
 public:
  explicit Session(const std::string& conninfo);
  Rows query(const std::string& sql);
  // The first column of the first row, "" for NULL or no row.
  std::string scalar(const std::string& sql);
  long long number(const std::string& sql);
  // One or several statements; rows touched by the last.
  long long exec(const std::string& sql);
  // Sends and does not wait: for a statement that shall block. finish() reads its outcome.
  void send(const std::string& sql);
  void finish();
  int backend_pid() const { return PQbackendPID(connection_.get()); }
  PGconn* get() const { return connection_.get(); }

 private:
  struct Close {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };
  std::unique_ptr<PGconn, Close> connection_;
};

std::string quote_literal(const std::string& text);
std::string quote_identifier(const std::string& name);

}  // namespace pgbaton::testing
