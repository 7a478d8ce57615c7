// What foreign keys of the target would do to rows of other tables when rows of a table are deleted or their keys
// change: ON DELETE and ON UPDATE with CASCADE, SET NULL or SET DEFAULT. A repair must not set them off: the rows that
// they change are nobody's difference. Under session_replication_role = replica they rest (but not those that are
// ENABLE ALWAYS or REPLICA).
#pragma once
#include <pgbaton/pg/connection.hpp>

#include <map>
#include <string>
#include <vector>

#include "repair_sql.hpp"

namespace pgbaton::verify {

struct ForeignAction {
  bool on_delete = true;             // or on update
  std::string constraint, child;     // quoted
  std::vector<std::string> columns;  // of the table itself that the key refers to
  std::string match;                 // of a row t of it and a row c of the child
  std::string child_from;
  bool child_is_self = false;
};

// Of the plan's table on the target, for the session as it is now.
std::vector<ForeignAction> load_foreign_actions(pg::Connection& target, const TablePlan& plan);

// The keys among `keys` whose rows have rows of the child (other than those with `keys` themselves) that it would
// change.
std::vector<RowTexts> keys_with_children(pg::Connection& target, const TablePlan& plan, const ForeignAction& action,
                                         const std::vector<RowTexts>& keys);

// Error(rejected) for one such key.
Error refuse_action(const TablePlan& plan, const ForeignAction& action, const RowTexts& key);

}  // namespace pgbaton::verify
