// One SQL statement with its text parameters, while it is put together.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/wire/value.hpp>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::apply {

struct Statement {
  std::string sql;
  std::vector<pg::Parameter> parameters;  // views into the caller's bytes, or into `owned`
  std::deque<std::string> owned;          // a deque: addresses survive growth and moves

  Statement() = default;
  Statement(Statement&&) = default;
  Statement& operator=(Statement&&) = default;
  Statement(const Statement&) = delete;

  // Each adds a parameter and returns its place: `$3::pg_lsn`. The cast gives the parameter its type, so the text goes
  // through the type's own input function, as COPY would do it.
  std::string bind(const wire::Value& value, std::string_view type);
  std::string bind_view(std::string_view text, std::string_view type);
  std::string bind_own(std::string text, std::string_view type);
  std::string bind_lsn(Lsn commit_lsn);
};

}  // namespace pgbaton::apply
