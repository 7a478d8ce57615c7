#include "definitions.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/catalog/origin.hpp>
#include <pgbaton/catalog/shape.hpp>
#include <pgbaton/pg/connection.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "renamed.hpp"

namespace pgbaton::snapshot {

namespace {

using Tables = std::map<QualifiedName, catalog::Table>;

Tables tables_of(pg::Control& connection, Side side) {
  Tables tables;
  for (auto& table : catalog::load_tables(connection, {}, side)) {
    auto name = table.name;
    tables.emplace(std::move(name), std::move(table));
  }
  return tables;
}

// Columns by what a copy and the stream depend on. Defaults count by their presence only.
std::vector<std::string> shape(const catalog::Table& table) {
  std::vector<std::string> lines;
  for (const auto& column : table.columns)
    if (column.name != kGuardColumn)
      lines.push_back(fmt::format("{} {} {}{}{}{}", quote_identifier(column.name), column.full_type, column.identity,
                                  column.generated, column.not_null, column.has_default));
  return lines;
}

// Why rows cannot be copied into the target's table; "" when they can. With --schema none the target may have more,
// and constraints and defaults of its own.
std::string misfit(const catalog::Table& source, const catalog::Table* target) {
  if (target == nullptr) return "the table is missing on the target";
  for (const auto& column : source.columns) {
    if (column.name == kGuardColumn || !column.carried) continue;
    const auto* other = target->find_column(column.name);
    if (other == nullptr) return fmt::format("the target's table lacks column {}", quote_identifier(column.name));
    if (column.generated == ' ' && other->generated != ' ')
      return fmt::format("column {} is generated on the target only", quote_identifier(column.name));
  }
  return "";
}

// What stands or falls with a table: nothing in it holds rows. Anything else that depends on the table (another table,
// a function over its row type) makes DROP TABLE fail, and a person decides.
bool goes_with_table(const copy::TocEntry& entry) {
  static const std::set<std::string, std::less<>> kKinds{
      "SEQUENCE", "SEQUENCE OWNED BY", "DEFAULT", "TABLE ATTACH",     "ACL",
      "COMMENT",  "SECURITY LABEL",    "VIEW",    "MATERIALIZED VIEW"};
  return kKinds.contains(entry.description);
}

// The entries of the archive that make the table and what goes with it, in their order.
std::vector<const copy::TocEntry*> entries_of(const copy::SchemaArchive& archive, const catalog::Table& table) {
  constexpr std::uint32_t kClassRelation = 1259;  // pg_class
  std::set<int> chosen;
  std::vector<const copy::TocEntry*> entries;
  for (const auto& entry : archive.entries()) {
    if (entry.section != copy::Section::pre_data || entry.left_out) continue;
    bool is_it = entry.class_oid == kClassRelation && entry.catalog_oid == table.oid;
    bool with_it =
        goes_with_table(entry) && std::ranges::any_of(entry.dependencies, [&](int id) { return chosen.contains(id); });
    if (!is_it && !with_it) continue;
    chosen.insert(entry.id);
    entries.push_back(&entry);
  }
  return entries;
}

std::string drop_statement(const copy::TocEntry& entry) {
  for (auto kind : {"TABLE", "VIEW", "MATERIALIZED VIEW"})
    if (entry.description == kind) return fmt::format("drop {} if exists {}; ", kind, entry.table.quoted());
  return "";
}

bool hangs_on_others(pg::Control& source, const catalog::Table& table) {
  return pg::control(Side::source, "reading what " + table.name.quoted() + " inherits from", [&] {
    pqxx::nontransaction tx(source);
    return tx
        .exec_params1("select exists (select from pg_catalog.pg_inherits where $1::oid in (inhrelid, inhparent))",
                      table.oid)[0]
        .as<bool>();
  });
}

// Drops the (empty) table and makes it from the archive, in one transaction.
void make_anew(const Build& build, const catalog::Table& table) {
  auto entries = entries_of(*build.archive, table);
  if (entries.empty()) return;  // dropped on the source: the copy finds out and says so
  log::info("{}: made anew on the target as the source has it now", table.name.quoted());
  std::string drops;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) drops += drop_statement(**entry);
  auto target = pg::Connection::open(build.options.target, "definition");
  try {
    target.exec("begin; set local lock_timeout = '30s'; set local check_function_bodies = off; " + drops);
    for (const auto* entry : entries) target.exec(entry->sql);
    // A source that is itself a target has a guard of its own, which means nothing here. A typed table refuses even to
    // drop a column that it does not have.
    if (table.has_guard_column)
      target.exec(fmt::format("alter table {} drop column {}", table.name.quoted(), quote_identifier(kGuardColumn)));
    target.exec("commit");
  } catch (Error& error) {
    if (error.action() == Action::retry) throw;
    throw Error(ErrorKind::rejected,
                "its definition changed on the source, and the target's cannot be replaced: " + error.message())
        .side(Side::target)
        .sqlstate(error.sqlstate())
        .table(table.name.quoted())
        .hint(hangs_on_others(*build.source, table)
                  ? "Alter the tables of its tree on the target like the source's and run the same command again, or "
                    "begin anew with --restart."
                  : "Drop what depends on it on the target, then run the same command again.");
  }
}

void alter(const Build& build, const QualifiedName& table, const std::string& statements) {
  pg::control(Side::target, "altering " + table.quoted(), [&] {
    pqxx::work tx(*build.target);
    tx.exec0("set local lock_timeout = '30s'");
    tx.exec(statements);
    tx.commit();
  });
}

// What a column that the target's table lacks takes; "" when each row may hold another value in it. What older rows
// hold stands with the table itself, never with a partitioned ancestor.
std::string make_column(const catalog::ColumnOrigin& column, const catalog::Table& target) {
  if (!column.recorded_name.empty() && target.find_column(column.recorded_name) != nullptr)
    return fmt::format("ALTER TABLE {} RENAME COLUMN {} TO {}", target.name.quoted(),
                       quote_identifier(column.recorded_name), quote_identifier(column.name));
  if (column.generated != ' ' || column.identity != ' ' || !column.old_value || !column.recorded_name.empty())
    return {};
  const auto addition = catalog::add_column(column, true);
  return addition.statement + (addition.afterwards.empty() ? "" : "; " + addition.afterwards);
}

// Of a column that is there, but was altered or made again on the source. What that has done to rows that are copied
// already is a doubt (doubts.hpp).
std::string alter_column(const catalog::Origins& origins, const catalog::ColumnOrigin& column,
                         const catalog::Table& target) {
  const auto& there = *target.find_column(column.name);
  if (there.generated != column.generated || there.identity != column.identity || column.generated != ' ') return {};
  if (there.full_type != column.type && !column.type.starts_with(there.full_type + " COLLATE "))
    return catalog::retype(origins, column, target, target.name).statements;
  if (there.not_null != column.not_null)
    return fmt::format("ALTER TABLE {} ALTER COLUMN {} {} NOT NULL", target.name.quoted(),
                       quote_identifier(column.name), column.not_null ? "SET" : "DROP");
  return {};
}

// A child may have another default than its parent.
std::string alter_default(const catalog::ColumnOrigin& column, const catalog::Table& own) {
  const auto* there = own.find_column(column.name);
  if (there == nullptr || there->has_default == !column.default_expression.empty() || column.generated != ' ')
    return {};
  return fmt::format("ALTER TABLE ONLY {} ALTER COLUMN {} {}", own.name.quoted(), quote_identifier(column.name),
                     column.default_expression.empty() ? "DROP DEFAULT" : "SET DEFAULT " + column.default_expression);
}

// Columns of the table or its ancestors that came or were altered since: tables that hang on each other cannot be made
// anew one by one, and some of them may have their rows.
void mend_columns(const Build& build, const catalog::Table& table) {
  std::string shape;  // as it was recorded: that of now says nothing about the rows
  for (const auto& state : state::Store(*build.target).load_tables(build.replica))
    if (state.source_oid == table.oid) shape = state.source_shape;
  const auto origins = catalog::load_origins(*build.source, table.oid, shape);
  if (!origins) return;
  const auto mend = [&](const catalog::ColumnOrigin& column, const QualifiedName& where,
                        const std::string& statements) {
    if (statements.empty()) return;
    log::info("{}: column {} changed while it was to be copied: {}", table.name.quoted(), quote_identifier(column.name),
              statements);
    alter(build, where, statements);
  };
  for (const auto& column : origins->columns) {
    const auto target = catalog::load_table(*build.target, column.defined_at, Side::target);
    if (!target) continue;
    mend(column, target->name,
         target->find_column(column.name) == nullptr ? make_column(column, *target)
                                                     : alter_column(*origins, column, *target));
    if (const auto own = catalog::load_table(*build.target, table.name, Side::target))
      mend(column, own->name, alter_default(column, *own));
  }
}

// A column that only the target has is one that was dropped since; without a value it must not be in the way.
bool takes_rows_of(const catalog::Table& target, const catalog::Table& source) {
  const auto lines = shape(target);
  const std::set<std::string> there(lines.begin(), lines.end());
  return std::ranges::all_of(shape(source), [&](const auto& line) { return there.contains(line); }) &&
         std::ranges::all_of(target.columns, [&](const catalog::Column& column) {
           return source.find_column(column.name) != nullptr || column.name == kGuardColumn || !column.not_null ||
                  column.has_default;
         });
}

// Whether a table that others hang on, or that hangs on others, could be brought into the source's shape in its place.
bool mended_in_place(const Build& build, const catalog::Table& table) {
  if (!hangs_on_others(*build.source, table)) return false;
  mend_columns(build, table);
  const auto target = catalog::load_table(*build.target, table.name, Side::target);
  return target && takes_rows_of(*target, table);
}

void compare(const Build& build, const std::vector<copy::CopyJob>& pending) {
  auto on_target = tables_of(*build.target, Side::target);
  for (const auto& job : pending) {
    auto found = on_target.find(job.table.name);
    bool exists = found != on_target.end();
    if (!build.restores_schema()) {
      auto why = misfit(job.table, exists ? &found->second : nullptr);
      if (why.empty()) continue;
      throw Error(ErrorKind::rejected, why)
          .side(Side::target)
          .table(job.table.name.quoted())
          .hint("Make it the same on the target (--schema none leaves that to you), then run the same command again.");
    }
    if (exists && shape(job.table) == shape(found->second)) continue;
    if (exists && mended_in_place(build, job.table)) continue;
    make_anew(build, job.table);
  }
}

// Each transaction of the restore says in itself what it made: a run that is killed, or does not hear of its COMMIT,
// leaves exactly what the next one reads here.
void restore(Build& build) {
  copy::RestoreRecord record;
  record.done = build.store.load_schema_parts(build.replica.name);
  if (!record.done.empty())
    log::info("going on with the definitions; restored by an earlier run: {}", record.done.size());
  record.statement = [&](const std::vector<std::string>& fingerprints, bool last) {
    build.made.schema = true;  // before the COMMIT, whose reply may be lost
    return last ? state::Store::schema_restored_statement(build.replica)
                : state::Store::schema_part_statement(build.replica, fingerprints);
  };
  build.archive->restore_pre_data(build.options.target, build.stop, record);
}

}  // namespace

void restore_or_compare(Build& build, std::vector<copy::CopyJob>& pending) {
  if (build.restores_schema() && !build.replica.schema_restored) {
    bool begun_before = !build.store.load_schema_parts(build.replica.name).empty();
    restore(build);
    PGBATON_FAILPOINT("schema_restored");
    build.replica.schema_restored = true;
    if (!begun_before) return;
  }
  compare(build, pending);
}

void describe_again(pg::Control& source, std::vector<copy::CopyJob>& pending) {
  std::map<catalog::Oid, catalog::Table> by_oid;
  for (auto& table : catalog::load_tables(source)) by_oid.emplace(table.oid, std::move(table));
  for (auto& job : pending) {
    auto found = by_oid.find(job.table.oid);
    if (found == by_oid.end()) continue;  // dropped: the copy finds out and says so
    if (found->second.name != job.table.name) throw renamed(job.table.name, found->second.name);
    catalog::keep_choice(job.table, found->second);
    job.table = found->second;
    job.state.source_shape = catalog::shape_json(job.table);
  }
}

std::vector<QualifiedName> tables_left_out(pg::Control& source, const CloneOptions& options) {
  auto all = catalog::load_tables(source);
  std::set<catalog::Oid> kept;
  for (const auto& table : catalog::apply_filter(all, options.filter)) kept.insert(table.oid);
  std::vector<QualifiedName> left_out;
  for (const auto& table : all)
    if (!kept.contains(table.oid)) left_out.push_back(table.name);
  return left_out;
}

std::vector<QualifiedName> tables_not_recorded(pg::Control& source, const std::vector<copy::CopyJob>& jobs) {
  std::set<catalog::Oid> recorded;
  for (const auto& job : jobs) recorded.insert(job.state.source_oid);
  std::vector<QualifiedName> names;
  for (const auto& table : catalog::load_tables(source))
    if (!recorded.contains(table.oid)) names.push_back(table.name);
  return names;
}

std::map<QualifiedName, QualifiedName> load_target_roots(pg::Control& target) {
  auto tables = catalog::load_tables(target, {}, Side::target);
  std::map<catalog::Oid, QualifiedName> names;
  for (const auto& table : tables) names.emplace(table.oid, table.name);
  std::map<QualifiedName, QualifiedName> roots;
  for (const auto& table : tables)
    if (table.root_oid != 0 && names.contains(table.root_oid)) roots.emplace(table.name, names.at(table.root_oid));
  return roots;
}

}  // namespace pgbaton::snapshot
