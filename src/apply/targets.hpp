// What statements must know about a target table that the stream does not: whether it is partitioned. Rows of a plain
// table are addressed with ONLY, because inheritance children share its columns but not its keys; a partitioned root
// has rows only in its partitions. Looked up once per table and session.
#pragma once
#include <pgbaton/apply/table.hpp>
#include <pgbaton/pg/connection.hpp>

#include <string>
#include <unordered_map>

namespace pgbaton::apply {

class Targets {
 public:
  explicit Targets(pg::Connection& connection) : connection_(connection) {}
  // `ONLY "s"."t"`, or `"s"."t"` when partitioned. Not while a pipeline or COPY is open on the connection. Throws
  // Error(rejected) when the target has no such table.
  const std::string& scope(const TargetTable& table);
  // After an error: the table may have been replaced by one of another kind.
  void forget() { scopes_.clear(); }

 private:
  pg::Connection& connection_;
  std::unordered_map<std::string, std::string> scopes_;
};

}  // namespace pgbaton::apply
