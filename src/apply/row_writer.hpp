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

namespace pgbaton::apply {

class RowWriter {
 public:
  explicit RowWriter(RowSession& session) : session_(session), any_order_(session) {}
  void write(const Change& change);

 private:
  struct RowTarget target(const Change& change);
  void insert(const Change& change);
  void update(const Change& change);
  void remove(const Change& change);
  void update_keyless(const Change& change);
  void remove_keyless(const Change& change);
  void resolve_conflict(const Change& change);
  void explain_untouched(const Change& change, wire::Tuple key_row);
  void expect_one(const Change& change, long long rows);

  RowSession& session_;
  AnyOrderWriter any_order_;
};

// The relation between the row under this key and the change; shared with AnyOrderWriter.
enum class Found { missing, older, same, newer, unguarded };
Found find_row(RowSession& session, const Change& change, wire::Tuple key_row);

}  // namespace pgbaton::apply
