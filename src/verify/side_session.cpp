#include "side_session.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/source/slot.hpp>

namespace pgbaton::verify {
namespace {

// A dropped table or column; the plan does not fit any more.
bool is_gone(std::string_view sqlstate) {
  return sqlstate == "42P01" || sqlstate == "3F000" || sqlstate == "42703";
}

// Parallelism is --jobs, not the server's.
constexpr const char* kSettings = "SET max_parallel_workers_per_gather = 0";

// The catalog as the snapshot shows it beside what is true now. Of a partitioned table it is its leaves that can be
// rewritten.
std::string probe(const catalog::Table& table) {
  const auto leaves = table.kind == 'p'
                          ? fmt::format("oid IN (SELECT relid FROM pg_partition_tree({}) WHERE isleaf)", table.oid)
                          : fmt::format("oid = {}", table.oid);
  return fmt::format(
      "SELECT coalesce(bool_and(relfilenode = coalesce(pg_relation_filenode(oid), 0)), {}), {}::regclass::oid = {} "
      "FROM pg_class WHERE {}",
      table.kind == 'p', quote_literal(table.name.quoted()), table.oid, leaves);
}

}  // namespace

SideSession::SideSession(const pg::Endpoint& endpoint, Where where, const std::string& snapshot_id, Deadline deadline,
                         std::stop_token stop)
    : where_(where),
      deadline_(deadline),
      stop_(std::move(stop)),
      connection_(source::open_snapshot_worker(endpoint, snapshot_id, "verify")) {
  connection_.exec(kSettings);
}

bool SideSession::enter(const TablePlan& plan) {
  const auto& table = plan.side(where_).table;
  connection_.exec("SAVEPOINT part");
  try {
    exec(fmt::format("LOCK TABLE {} IN ACCESS SHARE MODE", plan.side(where_).from));
    const auto same = exec(probe(table));
    return same.rows() == 1 && same.value(0, 0) == "t" && same.value(0, 1) == "t";
  } catch (const Error& error) {
    if (!is_gone(error.sqlstate())) throw;
    return false;
  }
}

void SideSession::leave() {
  connection_.exec("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part");
}

Visit::Visit(SideSession& session, const TablePlan& plan) : session_(session), is_here_(session.enter(plan)) {}

Visit::~Visit() {
  try {
    session_.leave();
  } catch (const std::exception&) {  // the connection is lost, which its next statement tells
  }
}

pg::Result SideSession::exec(const std::string& sql) {
  return connection_.exec_until(sql, deadline_, stop_);
}

}  // namespace pgbaton::verify
