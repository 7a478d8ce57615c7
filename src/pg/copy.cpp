#include <algorithm>
#include <charconv>
#include <pgbaton/pg/copy.hpp>

namespace pgbaton::pg {
namespace {

// libpq's buffer grows by what one call hands over; larger pieces would only cost memory.
constexpr std::size_t kPieceBytes = 1024 * 1024;

Result next_result(Connection& connection) {
  return Result(PQgetResult(connection.get()));
}

void drain(Connection& connection) noexcept {
  while (PGresult* result = PQgetResult(connection.get())) {
    const bool lost = PQstatus(connection.get()) == CONNECTION_BAD;
    PQclear(result);
    if (lost) return;
  }
}

// The result that ends a COPY, with the results behind it read: the rows, or the server's error.
long long end_of_copy(Connection& connection) {
  const auto result = next_result(connection);
  if (result.status() != PGRES_COMMAND_OK) {
    const auto error = connection.error(result.get(), "");
    drain(connection);
    throw error;
  }
  drain(connection);
  return result.affected();
}

void start(Connection& connection, const std::string& sql, ExecStatusType expected) {
  const auto result = connection.exec(sql);
  if (result.status() == expected) return;
  throw Error(ErrorKind::failed, "the statement is no COPY in the expected direction: " + sql)
      .side(connection.side())
      .action(Action::bug);
}

}  // namespace

CopyOut::CopyOut(Connection& connection, const std::string& sql) : connection_(connection) {
  start(connection, sql, PGRES_COPY_OUT);
}

CopyOut::~CopyOut() {
  PQfreemem(buffer_);
  if (done_) return;
  connection_.canceller().cancel();
  char* row = nullptr;
  while (PQgetCopyData(connection_.get(), &row, 0) > 0) PQfreemem(row);
  drain(connection_);
}

std::string_view CopyOut::read() {
  if (done_) return {};
  PQfreemem(buffer_);
  buffer_ = nullptr;
  const int size = PQgetCopyData(connection_.get(), &buffer_, 0);
  if (size > 0) return {buffer_, static_cast<std::size_t>(size)};
  done_ = true;
  if (size == -2) throw connection_.error(nullptr, "");
  rows_ = end_of_copy(connection_);
  return {};
}

CopyIn::CopyIn(Connection& connection, const std::string& sql) : connection_(connection) {
  start(connection, sql, PGRES_COPY_IN);
}

CopyIn::~CopyIn() {
  if (!open_) return;
  if (PQputCopyEnd(connection_.get(), "aborted by pgbaton") == 1) drain(connection_);
}

void CopyIn::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, kPieceBytes);
    if (PQputCopyData(connection_.get(), piece.data(), static_cast<int>(piece.size())) != 1) {
      open_ = false;
      throw connection_.error(nullptr, "");
    }
    bytes.remove_prefix(piece.size());
  }
}

long long CopyIn::finish() {
  open_ = false;
  if (PQputCopyEnd(connection_.get(), nullptr) != 1) throw connection_.error(nullptr, "");
  return end_of_copy(connection_);
}

}  // namespace pgbaton::pg
