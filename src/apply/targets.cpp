#include "targets.hpp"

#include "statement.hpp"

namespace pgbaton::apply {

const std::string& Targets::scope(const TargetTable& table) {
  auto known = scopes_.find(table.quoted);
  if (known != scopes_.end()) return known->second;
  Statement look;
  look.sql = "SELECT relkind FROM pg_class WHERE oid = to_regclass(" + look.bind_view(table.quoted, "text") + ")";
  const pg::Result result = connection_.exec(look.sql, look.parameters);
  if (result.rows() != 1)
    throw Error(ErrorKind::rejected, "the target has no table " + table.quoted)
        .side(Side::target)
        .table(table.quoted)
        .hint("Create the table on the target as it is on the source, then run the same command again.");
  const bool partitioned = result.value(0, 0) == "p";
  return scopes_.emplace(table.quoted, partitioned ? table.quoted : "ONLY " + table.quoted).first->second;
}

}  // namespace pgbaton::apply
