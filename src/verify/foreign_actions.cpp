#include "foreign_actions.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>

#include <optional>

namespace pgbaton::verify {
namespace {

// The server's own triggers do it, on the table that is referred to; a partition has its own, of a constraint below the
// one that can be dropped.
std::string actions_query(catalog::Oid table) {
  return fmt::format(R"(
SELECT k.oid::bigint, p.proname LIKE '%_del', quote_ident(top.conname), format('%I.%I', n.nspname, c.relname),
       CASE WHEN c.relkind = 'p' THEN '' ELSE 'ONLY ' END, c.oid = {0}, mine.attname,
       format('t.%I OPERATOR(%I.%s) c.%I', mine.attname, ons.nspname, o.oprname, theirs.attname)
  FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_constraint k ON k.oid = g.tgconstraint
       JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
       CROSS JOIN LATERAL (
         WITH RECURSIVE up AS (
           SELECT k.conname, k.conparentid
           UNION ALL SELECT q.conname, q.conparentid FROM up JOIN pg_constraint q ON q.oid = up.conparentid)
         SELECT conname FROM up WHERE conparentid = 0) AS top
       CROSS JOIN unnest(k.confkey, k.conkey, k.conpfeqop) AS u (mine, theirs, equal)
       JOIN pg_attribute mine ON mine.attrelid = k.confrelid AND mine.attnum = u.mine
       JOIN pg_attribute theirs ON theirs.attrelid = k.conrelid AND theirs.attnum = u.theirs
       JOIN pg_operator o ON o.oid = u.equal JOIN pg_namespace ons ON ons.oid = o.oprnamespace
 WHERE g.tgrelid = {0} AND k.contype = 'f' AND k.confrelid = {0}
   AND p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^RI_FKey_(cascade|setnull|setdefault)_(del|upd)$'
   AND g.tgenabled IN ('A', CASE current_setting('session_replication_role') WHEN 'replica' THEN 'R' ELSE 'O' END)
 ORDER BY 1, 2)",
                     table);
}

}  // namespace

std::vector<ForeignAction> load_foreign_actions(pg::Connection& target, const TablePlan& plan) {
  const auto rows = target.exec(actions_query(plan.side(Where::target).table.oid));
  std::vector<ForeignAction> actions;
  for (int i = 0; i < rows.rows(); ++i) {
    const bool same = i > 0 && rows.value(i, 0) == rows.value(i - 1, 0) && rows.value(i, 1) == rows.value(i - 1, 1);
    if (!same)
      actions.push_back({rows.value(i, 1) == "t",
                         rows.text(i, 2),
                         rows.text(i, 3),
                         {},
                         "",
                         rows.text(i, 4) + rows.text(i, 3),
                         rows.value(i, 5) == "t"});
    auto& action = actions.back();
    action.columns.push_back(rows.text(i, 6));
    action.match += (action.match.empty() ? "" : " AND ") + rows.text(i, 7);
  }
  return actions;
}

std::vector<RowTexts> keys_with_children(pg::Connection& target, const TablePlan& plan, const ForeignAction& action,
                                         const std::vector<RowTexts>& keys) {
  const auto itself =
      action.child_is_self ? " AND NOT " + key_condition(plan, Where::target, keys, "c") : std::string();
  const auto rows =
      target.exec(fmt::format("SELECT {} FROM {} AS t WHERE {} AND EXISTS (SELECT FROM {} AS c WHERE {}{})",
                              key_texts(plan, Where::target), plan.side(Where::target).from,
                              key_condition(plan, Where::target, keys), action.child_from, action.match, itself));
  std::vector<RowTexts> found;
  for (int i = 0; i < rows.rows(); ++i) {
    auto& key = found.emplace_back();
    for (int c = 0; c < rows.columns(); ++c)
      key.push_back(rows.is_null(i, c) ? std::nullopt : std::optional(rows.text(i, c)));
  }
  return found;
}

Error refuse_action(const TablePlan& plan, const ForeignAction& action, const RowTexts& key) {
  return Error(ErrorKind::rejected,
               fmt::format("a row {}, and foreign key {} of {} would change rows there along with it",
                           action.on_delete ? "would have to be deleted" : "is to get other values", action.constraint,
                           action.child))
      .side(Side::target)
      .table(plan.name.quoted())
      .key(key_text(plan, key))
      .hint(fmt::format("The target's role may not set session_replication_role, so its foreign keys act: ALTER TABLE "
                        "{} DROP CONSTRAINT {}; on the target, run the same command again, then add it again.",
                        action.child, action.constraint));
}

}  // namespace pgbaton::verify
