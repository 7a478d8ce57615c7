// --schema none: the target's own tables must be there, empty, writable, and fit.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

struct Match {
  const copy::CopyJob* job;
  const catalog::Table* own;
};

std::string oids(const std::vector<Match>& matches) {
  std::vector<catalog::Oid> list;
  for (const auto& match : matches) list.push_back(match.own->oid);
  return oid_array(list);
}

std::string quoted(const pqxx::field& schema, const pqxx::field& name) {
  return QualifiedName{schema.as<std::string>(), name.as<std::string>()}.quoted();
}

// Many tables to a statement: a round trip for each would take minutes for thousands of them.
std::vector<std::string> with_rows(pg::Control& target, const std::vector<Match>& matches) {
  constexpr std::size_t kAtOnce = 500;
  std::vector<std::string> found;
  pqxx::nontransaction tx(target);
  for (std::size_t begin = 0; begin < matches.size(); begin += kAtOnce) {
    std::string sql;
    for (auto i = begin; i < std::min(begin + kAtOnce, matches.size()); ++i)
      sql += fmt::format("{}select {} where exists (select from only {})", sql.empty() ? "" : " union all ", i,
                         matches[i].own->name.quoted());
    for (auto row : tx.exec(sql)) found.push_back(matches[row[0].as<std::size_t>()].own->name.quoted());
  }
  return found;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

void check_columns(const Match& match, Findings& findings) {
  const auto name = match.own->name.quoted();
  std::vector<std::string> missing, add;
  for (const auto& column : match.job->table.columns) {
    if (column.name == kGuardColumn || match.own->find_column(column.name) != nullptr) continue;
    missing.push_back(quote_identifier(column.name));
    add.push_back(fmt::format("ADD COLUMN {} {}", missing.back(), column.full_type));
  }
  if (!missing.empty())
    findings.blocker("target.column_missing", name, fmt::format("the target's table lacks {}", first_few(missing)),
                     fmt::format("ALTER TABLE {} {}; on the target.", name, fmt::join(add, ", ")));
}

void check_key(const Match& match, Findings& findings) {
  const auto& table = match.job->table;
  if (table.identity != catalog::Identity::index) return;
  const auto wanted = sorted(table.identity_columns);
  if (std::ranges::any_of(match.own->unique_keys, [&](const auto& key) { return sorted(key) == wanted; })) return;
  std::vector<std::string> columns;
  for (const auto& column : table.identity_columns) columns.push_back(quote_identifier(column));
  findings.warning("target.key_missing", match.own->name.quoted(),
                   fmt::format("the target's table has no unique key on {}: every change searches the whole table",
                               fmt::join(columns, ", ")),
                   fmt::format("ALTER TABLE {} ADD PRIMARY KEY ({}); on the target.", match.own->name.quoted(),
                               fmt::join(columns, ", ")));
}

// Returns those that can be looked into.
std::vector<Match> check_rights(CheckSide& target, const std::vector<Match>& matches, Findings& findings) {
  std::map<catalog::Oid, bool> guarded;
  std::set<catalog::Oid> closed;
  for (const auto& match : matches) guarded[match.own->oid] = match.job->state.guard == state::GuardKind::column;
  pqxx::nontransaction tx(*target.connection);
  const auto role = quote_identifier(target.server.user);
  auto rows = tx.exec_params(
      "select c.oid::bigint, n.nspname, c.relname, quote_ident(pg_get_userbyid(c.relowner)), "
      "pg_has_role(c.relowner, 'USAGE'), has_table_privilege(c.oid, 'SELECT') and has_table_privilege(c.oid, 'INSERT') "
      "and has_table_privilege(c.oid, 'UPDATE') and has_table_privilege(c.oid, 'DELETE') and "
      "has_table_privilege(c.oid, 'TRUNCATE'), has_table_privilege(c.oid, 'SELECT') from pg_class c join pg_namespace "
      "n on n.oid = c.relnamespace "
      "where c.oid = any($1::oid[]) order by 2, 3",
      oids(matches));
  for (auto row : rows) {
    const auto name = quoted(row[1], row[2]);
    if (!row[6].as<bool>()) closed.insert(row[0].as<catalog::Oid>());
    if (!row[5].as<bool>())
      findings.blocker(
          "target.table_right", name, "the role may not write it",
          fmt::format("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON {} TO {}; on the target.", name, role));
    else if (!row[4].as<bool>() && guarded[row[0].as<catalog::Oid>()])
      findings.blocker("target.table_owner", name, "only its owner can add the guard column",
                       fmt::format("GRANT {} TO {}; on the target.", row[3].as<std::string>(), role));
  }
  auto open = matches;
  std::erase_if(open, [&](const Match& match) { return closed.contains(match.own->oid); });
  return open;
}

// They fire even when session_replication_role = replica, for the copy's rows and for every change.
void check_triggers(pg::Control& target, const std::vector<Match>& matches, Findings& findings) {
  pqxx::nontransaction tx(target);
  auto rows = tx.exec_params(
      "select n.nspname, c.relname, t.what, t.name from ("
      "select tgrelid as relation, 'TRIGGER' as what, quote_ident(tgname) as name from pg_trigger "
      "where tgenabled in ('A', 'R') and not tgisinternal union all "
      "select ev_class, 'RULE', quote_ident(rulename) from pg_rewrite where ev_enabled in ('A', 'R')) t "
      "join pg_class c on c.oid = t.relation join pg_namespace n on n.oid = c.relnamespace "
      "where c.oid = any($1::oid[]) order by 1, 2, 3, 4",
      oids(matches));
  for (auto row : rows) {
    const auto what = row[2].as<std::string>() + " " + row[3].as<std::string>();
    findings.warning(
        "target.always_trigger", quoted(row[0], row[1]),
        what + " of the target is ENABLE ALWAYS or REPLICA: it fires for the copy and every applied change",
        fmt::format("ALTER TABLE {} DISABLE {}; on the target.", quoted(row[0], row[1]), what));
  }
}

}  // namespace

void check_own_tables(const CheckOptions& options, CheckSide& target, const TablePlan& plan,
                      const std::vector<catalog::Table>& existing, Findings& findings) {
  if (options.clone.schema != SchemaMode::none) return;
  std::map<QualifiedName, const catalog::Table*> by_name;
  for (const auto& table : existing) by_name[table.name] = &table;
  std::vector<Match> matches;
  std::vector<std::string> absent;
  for (const auto& job : plan.jobs) {
    if (job.state.phase == state::TablePhase::skipped) continue;
    if (const auto found = by_name.find(job.table.name); found != by_name.end())
      matches.push_back({&job, found->second});
    else
      absent.push_back(job.table.name.quoted());
  }
  if (!absent.empty())
    findings.blocker("target.table_missing", first_few(absent), "--schema none, but the target lacks these tables",
                     "Create them, leave them out with --exclude-table, or use --schema full.");
  const auto readable = check_rights(target, matches, findings);
  if (auto filled = with_rows(*target.connection, readable); !filled.empty())
    findings.blocker(
        "target.table_not_empty", first_few(filled), "--schema none, but these tables hold rows",
        fmt::format("TRUNCATE {}; on the target, or leave them out with --exclude-table.", fmt::join(filled, ", ")));
  for (const auto& match : matches) {
    check_columns(match, findings);
    check_key(match, findings);
  }
  check_triggers(*target.connection, matches, findings);
}

}  // namespace pgbaton::snapshot
