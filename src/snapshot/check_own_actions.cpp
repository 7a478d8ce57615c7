// --schema none without session_replication_role: the target's own foreign keys and triggers act on what is applied.
//
// The source streams what its foreign keys did as changes of their own: DELETE of the parent, then DELETE of each
// child. A key of the target with ON DELETE CASCADE has taken the children by then, and the stream stops at the first
// of them because there is no row to delete. SET NULL and SET DEFAULT are harmless where the source has the same key,
// since the change that follows writes the same values again; where it has not, rows change that nobody knows of.
#include <fmt/format.h>

#include <set>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

// Its place and its actions, as text: the same on both sides for the same key.
constexpr std::string_view kSignature =
    "format('%I.%I %s %I.%I %s %s', cn.nspname, c.relname, array(select attname from unnest(k.conkey) u(n) join "
    "pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.n order by 1), pn.nspname, p.relname, k.confdeltype, "
    "k.confupdtype)";
constexpr std::string_view kForeignKeys =
    " from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace cn on cn.oid = c.relnamespace "
    "join pg_class p on p.oid = k.confrelid join pg_namespace pn on pn.oid = p.relnamespace "
    "where k.contype = 'f' and k.conparentid = 0";

std::string on_the_target(const std::string& table, const std::string& constraint) {
  return fmt::format(
      "ALTER TABLE {} DROP CONSTRAINT {}; on the target (add it again after `finish`), or let the role "
      "set session_replication_role.",
      table, constraint);
}

// Keys are declared on roots, whose partitions have them from there.
std::string with_roots(pg::Control& target, const std::vector<catalog::Oid>& own) {
  pqxx::nontransaction tx(target);
  return tx
      .exec_params1(
          "select array(select o from unnest($1::oid[]) o union select a.relid from unnest($1::oid[]) o cross join "
          "pg_partition_ancestors(o) a)::text",
          oid_array(own))[0]
      .as<std::string>();
}

std::set<std::string> source_keys(pg::Control& source) {
  pqxx::nontransaction tx(source);
  std::set<std::string> keys;
  for (auto row : tx.exec(fmt::format("select {}{}", kSignature, kForeignKeys))) keys.insert(row[0].as<std::string>());
  return keys;
}

void check_foreign_keys(CheckSide& source, CheckSide& target, const std::vector<catalog::Oid>& own,
                        Findings& findings) {
  const auto known = source_keys(*source.connection);
  const auto tables = with_roots(*target.connection, own);
  pqxx::nontransaction tx(*target.connection);
  const auto rows = tx.exec_params(
      fmt::format("select {}, quote_ident(k.conname), format('%I.%I', cn.nspname, c.relname), "
                  "format('%I.%I', pn.nspname, p.relname), k.confdeltype, k.confupdtype, k.conrelid = any($1::oid[]), "
                  "exists (select from pg_index i where i.indrelid = k.conrelid and i.indisunique and "
                  "(i.indisprimary or i.indisreplident) and i.indkey::int2[] && k.conkey){} "
                  "and (k.confrelid = any($1::oid[]) or k.conrelid = any($1::oid[])) and exists (select from "
                  "pg_trigger g where g.tgconstraint = k.oid and g.tgenabled in ('O', 'A')) order by 3, 2",
                  kSignature, kForeignKeys),
      tables);
  for (auto row : rows) {
    const auto name = row[1].as<std::string>(), child = row[2].as<std::string>(), parent = row[3].as<std::string>();
    const char on_delete = *row[4].c_str(), on_update = *row[5].c_str();
    const bool child_is_ours = row[6].as<bool>(), in_key = row[7].as<bool>();
    const bool acts = on_delete == 'c' || on_delete == 'n' || on_delete == 'd' || on_update == 'c' ||
                      on_update == 'n' || on_update == 'd';
    const auto what = fmt::format("foreign key {} to {} ", name, parent);
    if (child_is_ours && (on_delete == 'c' || (on_update == 'c' && in_key)))
      findings.blocker("target.foreign_action", child,
                       what + (on_delete == 'c' ? "is ON DELETE CASCADE: it takes rows whose own delete the source "
                                                  "sends afterwards, and the stream stops there (exit 8)"
                                                : "is ON UPDATE CASCADE and changes the key of rows whose own change "
                                                  "the source sends afterwards: the stream stops there (exit 8)"),
                       on_the_target(child, name));
    else if (child_is_ours && acts && !known.contains(row[0].as<std::string>()))
      findings.blocker("target.foreign_action", child,
                       what +
                           "changes rows by itself (ON DELETE or ON UPDATE), and the source has no such key: they "
                           "would differ from then on",
                       on_the_target(child, name));
    else
      findings.warning("target.foreign_key", child,
                       what + (child_is_ours ? "is enforced for the copy, which takes the largest tables first, and "
                                               "for every change: what it refuses stops them (exit 8)"
                                             : "of a table that is not copied is enforced, with its ON DELETE and ON "
                                               "UPDATE, for every change"),
                       on_the_target(child, name));
  }
}

void check_ordinary_triggers(CheckSide& target, const std::vector<catalog::Oid>& own, Findings& findings) {
  pqxx::nontransaction tx(*target.connection);
  for (auto row :
       tx.exec_params("select format('%I.%I', n.nspname, c.relname), quote_ident(g.tgname) from pg_trigger g "
                      "join pg_class c on c.oid = g.tgrelid join pg_namespace n on n.oid = c.relnamespace "
                      "where g.tgenabled = 'O' and not g.tgisinternal and c.oid = any($1::oid[]) order by "
                      "1, 2",
                      oid_array(own))) {
    const auto table = row[0].as<std::string>(), trigger = row[1].as<std::string>();
    findings.warning("target.trigger", table,
                     fmt::format("TRIGGER {} of the target fires for the copy and every applied change", trigger),
                     fmt::format("ALTER TABLE {} DISABLE TRIGGER {}; on the target, or let the role set "
                                 "session_replication_role.",
                                 table, trigger));
  }
}

}  // namespace

void check_own_actions(CheckSide& source, CheckSide& target, const std::vector<catalog::Oid>& own, Findings& findings) {
  if (own.empty() || catalog::may_set_replica_role(*target.connection, Side::target)) return;
  check_foreign_keys(source, target, own, findings);
  check_ordinary_triggers(target, own, findings);
}

}  // namespace pgbaton::snapshot
