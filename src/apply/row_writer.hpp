// The change-by-change strategy: each change by a statement of its own, in the source's order, with its row count read.
//
// In-order delivery: exactly one row is due. If none was touched, the target's row is looked at:
//   newer guard                    → stale, counted and left alone (G2)
//   an insert of the same guard    → a replay of the transaction: overwritten
//   an ALWAYS identity differs     → deleted and inserted anew, because such a column cannot stand in SET
//   anything else                  → Error(rejected): a missing row (policy missing: stop), or one too many
#pragma once
#include "any_order.hpp"
#include "row_session.hpp"
#include "row_sql.hpp"

namespace pgbaton::apply {

class RowWriter {
 public:
  explicit RowWriter(RowSession& session) : session_(session), any_order_(session) {}
  void write(const Change& change);
  // All of them, in order. What is one statement each goes out in pipelines of some hundred; a pipeline in which a
  // count is not one, or a statement is refused, is rolled back and written singly, which settles or names the change.
  void write_all(std::span<const Change> window);

 private:
  RowTarget target(const Change& change);
  bool write_chunk(std::span<const Change> chunk);
  Statement statement(const Change& change);
  void settle(const Change& change, long long rows);
  void resolve_conflict(const Change& change);
  void explain_untouched(const Change& change, wire::Tuple key_row);
  void replace_keyless(const Change& change);

  RowSession& session_;
  AnyOrderWriter any_order_;
};

// The relation between the row under this key and the change; shared with AnyOrderWriter.
enum class Found { missing, older, same, newer, unguarded };
Found find_row(RowSession& session, const Change& change, wire::Tuple key_row);

}  // namespace pgbaton::apply
