#include "apply_session.hpp"

#include <fmt/format.h>
#include <pgbaton/base/name.hpp>

#include <string>

namespace pgbaton::apply {

namespace {

// Foreign keys and ordinary triggers already did their work on the source. The result is checked, because a pooler or a
// provider's hook may swallow the SET.
void become_replica(pg::Connection& connection) {
  const auto refused = [](std::string_view reason) {
    return Error(ErrorKind::preflight, fmt::format("session_replication_role cannot be set to replica: {}", reason))
        .side(Side::target)
        .hint("GRANT SET ON PARAMETER session_replication_role to the target role (15 or later), or use a superuser.");
  };
  try {
    connection.exec("SET session_replication_role = replica");
  } catch (const Error& error) {
    if (error.sqlstate() != "42501") throw;
    throw refused(error.message()).sqlstate(error.sqlstate());
  }
  const pg::Result shown = connection.exec("SHOW session_replication_role");
  if (shown.value(0, 0) != "replica") throw refused("it is still " + shown.text(0, 0));
}

// Rows are found by key, a thousand at a time, in tables whose statistics may not exist yet: the planner must never
// prefer to hash or scan the table. Where no index serves (tables without key) a scan is still what remains; the
// penalties would make such plans look worth compiling, hence jit.
constexpr const char* kPlanByKey =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; "
    "SET plan_cache_mode = force_generic_plan";

}  // namespace

void set_up_session(pg::Connection& connection, const ApplierOptions& options) {
  if (options.replica_role) become_replica(connection);
  connection.exec("SET lock_timeout = " + quote_literal(options.lock_timeout));
  connection.exec(kPlanByKey);
}

}  // namespace pgbaton::apply
