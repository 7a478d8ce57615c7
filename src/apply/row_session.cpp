#include "row_session.hpp"

#include "reject.hpp"

namespace pgbaton::apply {

pg::Result RowSession::run(const Change& change, const Statement& statement) {
  try {
    return connection.exec(statement.sql, statement.parameters);
  } catch (const Error& error) {
    throw located(error, change);
  }
}

long long RowSession::write(const Change& change, const Statement& statement) {
  const long long rows = run(change, statement).affected();
  counts.rows_written += rows;
  return rows;
}

}  // namespace pgbaton::apply
