// --schema none: the target's own tables must be there, empty, writable, and fit.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "check_parts.hpp"
#include "preflight.hpp"

namespace pgbaton::snapshot {

namespace {

struct Match {
  const copy::CopyJob* job;
  const catalog::Table* own;
};

std::vector<catalog::Oid> own_oids(const std::vector<Match>& matches) {
  std::vector<catalog::Oid> list;
  for (const auto& match : matches) list.push_back(match.own->oid);
  return list;
}

std::string oids(const std::vector<Match>& matches) {
  return oid_array(own_oids(matches));
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
      sql += fmt::format("{}select {} where exists (select from {})", sql.empty() ? "" : " union all ", i,
                         own_rows(matches[i].own->name, matches[i].own->kind));
    for (auto row : tx.exec(sql)) found.push_back(matches[row[0].as<std::size_t>()].own->name.quoted());
  }
  return found;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

// A partitioned table without a partition takes no row.
void check_partitions(pg::Control& target, const std::vector<Match>& matches, Findings& findings) {
  pqxx::nontransaction tx(target);
  auto rows = tx.exec_params(
      "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = "
      "any($1::oid[]) and c.relkind = 'p' and not exists (select from pg_partition_tree(c.oid) t join pg_class l on "
      "l.oid = t.relid where l.relkind <> 'p') order by 1, 2",
      oids(matches));
  for (auto row : rows) {
    const auto name = quoted(row[0], row[1]);
    findings.blocker("target.no_partition", name,
                     "the target's table is partitioned and has no partition, so it can take no row",
                     fmt::format("CREATE TABLE … PARTITION OF {} …; on the target, or make it a plain table.", name));
  }
}

// Rows arrive under the names of the source's partitions, whatever the target has under the name of their root.
void check_absent(const TablePlan& plan, const std::map<QualifiedName, const catalog::Table*>& by_name,
                  const std::vector<const copy::CopyJob*>& absent, Findings& findings) {
  std::map<catalog::Oid, const catalog::Table*> roots;
  for (const auto& job : plan.jobs)
    if (job.table.kind == 'p') roots[job.table.oid] = &job.table;
  std::map<QualifiedName, std::vector<std::string>> of_roots;
  std::vector<std::string> others;
  for (const auto* job : absent) {
    const auto root = roots.find(job->table.root_oid);
    if (root != roots.end() && by_name.contains(root->second->name))
      of_roots[root->second->name].push_back(job->table.name.quoted());
    else
      others.push_back(job->table.name.quoted());
  }
  for (const auto& [root, leaves] : of_roots)
    findings.blocker(
        "target.partition_missing", root.quoted(),
        fmt::format("it is partitioned on the source, and the rows arrive under the names of its partitions; the "
                    "target, where it is a {} table, lacks {}",
                    by_name.at(root)->kind == 'p' ? "partitioned" : "plain", first_few(leaves)),
        "Create these on the target, as its partitions or as plain tables; or use --schema full.");
  if (!others.empty())
    findings.blocker("target.table_missing", first_few(others), "--schema none, but the target lacks these tables",
                     "Create them, leave them out with --exclude-table, or use --schema full.");
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

// "character varying(9)" → 9; -1 for no length.
int length_of(const catalog::Column& column) {
  const auto at = column.full_type.find('(');
  return at == std::string::npos ? -1 : std::atoi(column.full_type.c_str() + at + 1);
}

// Whether every value of the source's column arrives unchanged; the stream asks the same (stream/resolve.cpp).
bool type_fits(const catalog::Column& from, const catalog::Column& to) {
  if (from.type != to.type) return false;
  if (from.full_type == to.full_type || to.full_type == to.cast_type) return true;
  const bool only_longer =
      from.type.schema == "pg_catalog" && (from.type.name == "varchar" || from.type.name == "varbit");
  return only_longer && length_of(from) >= 0 && length_of(from) < length_of(to);
}

void check_types(const Match& match, Findings& findings) {
  std::vector<std::string> unfit, remedies;
  for (const auto& column : match.job->table.columns) {
    const auto* own = match.own->find_column(column.name);
    if (column.name == kGuardColumn || column.generated != ' ' || own == nullptr) continue;
    const auto name = quote_identifier(column.name);
    if (own->generated != ' ') {
      unfit.push_back(name + " is generated on the target only");
      remedies.push_back(fmt::format("ALTER COLUMN {} DROP EXPRESSION", name));
    } else if (!type_fits(column, *own)) {
      unfit.push_back(
          fmt::format("{} is {} on the source and {} on the target", name, column.full_type, own->full_type));
      remedies.push_back(fmt::format("ALTER COLUMN {} TYPE {}", name, column.full_type));
    }
  }
  if (!unfit.empty())
    findings.blocker(
        "target.column_type", match.own->name.quoted(), first_few(unfit),
        fmt::format("ALTER TABLE {} {}; on the target.", match.own->name.quoted(), fmt::join(remedies, ", ")));
}

// Columns that only the target has are left to their defaults.
void check_unfilled(const Match& match, Findings& findings) {
  std::vector<std::string> unfilled, remedies;
  for (const auto& own : match.own->columns) {
    const bool fills_itself = !own.not_null || own.has_default || own.identity != ' ' || own.generated != ' ';
    const auto* from = match.job->table.find_column(own.name);
    if (fills_itself || (from != nullptr && from->generated == ' ')) continue;
    unfilled.push_back(quote_identifier(own.name));
    remedies.push_back(fmt::format("ALTER COLUMN {} DROP NOT NULL", unfilled.back()));
  }
  if (!unfilled.empty())
    findings.blocker(
        "target.column_unfilled", match.own->name.quoted(),
        fmt::format("{} of the target's table is NOT NULL without a default, and the source sends nothing for "
                    "it",
                    first_few(unfilled)),
        fmt::format("ALTER TABLE {} {}; on the target, or give it a default.", match.own->name.quoted(),
                    fmt::join(remedies, ", ")));
}

// Without it a change touches two rows where a double has crept in and none where a row is missing, and the counts of a
// batch agree all the same. Rows of a partitioned table arrive under its partitions' names.
void check_key(const Match& match, Findings& findings) {
  const auto& table = match.job->table;
  if (table.identity != catalog::Identity::index || table.kind == 'p') return;
  const auto wanted = sorted(table.identity_columns);
  if (std::ranges::any_of(match.own->unique_keys, [&](const auto& key) { return sorted(key) == wanted; })) return;
  std::vector<std::string> columns, changes;
  for (const auto& column : table.identity_columns) {
    columns.push_back(quote_identifier(column));
    const auto* own = match.own->find_column(column);
    if (own != nullptr && !own->not_null)
      changes.push_back(fmt::format("ALTER COLUMN {} SET NOT NULL", columns.back()));
  }
  changes.push_back(fmt::format("ADD UNIQUE ({})", fmt::join(columns, ", ")));
  findings.blocker(
      "target.key_missing", match.own->name.quoted(),
      fmt::format("the target's table has no unique key on {} (NOT NULL, not deferrable, not partial): "
                  "changes could not be told to have found their one row",
                  fmt::join(columns, ", ")),
      fmt::format("ALTER TABLE {} {}; on the target.", match.own->name.quoted(), fmt::join(changes, ", ")));
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

void check_own_tables(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                      const std::vector<catalog::Table>& existing, Findings& findings) {
  if (options.clone.schema != SchemaMode::none) return;
  std::map<QualifiedName, const catalog::Table*> by_name;
  for (const auto& table : existing) by_name[table.name] = &table;
  std::vector<Match> matches;
  std::vector<const copy::CopyJob*> absent;
  for (const auto& job : plan.jobs) {
    if (job.state.phase == state::TablePhase::skipped) continue;
    if (const auto found = by_name.find(job.table.name); found != by_name.end())
      matches.push_back({&job, found->second});
    else
      absent.push_back(&job);
  }
  check_absent(plan, by_name, absent, findings);
  check_partitions(*target.connection, matches, findings);
  const auto readable = check_rights(target, matches, findings);
  if (auto filled = with_rows(*target.connection, readable); !filled.empty())
    findings.blocker(
        "target.table_not_empty", first_few(filled), "--schema none, but these tables hold rows",
        fmt::format("TRUNCATE {}; on the target, or leave them out with --exclude-table.", fmt::join(filled, ", ")));
  for (const auto& match : matches) {
    check_columns(match, findings);
    check_types(match, findings);
    check_unfilled(match, findings);
    check_key(match, findings);
  }
  check_triggers(*target.connection, matches, findings);
  check_own_actions(source, target, own_oids(matches), findings);
}

}  // namespace pgbaton::snapshot
