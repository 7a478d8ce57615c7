#include "copy_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <pgbaton/catalog/choice.hpp>

namespace pgbaton::copy {
namespace {

// Below FirstGenbkiObjectId: oids that are the same in every cluster.
constexpr catalog::Oid kFirstAssignedOid = 10000;

// Types whose binary form is a number of this one cluster (reg*), depends on a setting (money) or is not what their
// text says (xml with an encoding declaration) go as text.
constexpr const char* kTargetQuery =
    "select c.relkind,"
    " exists (select from pg_catalog.pg_constraint f"
    "          where f.confrelid = c.oid and f.contype = 'f' and f.conrelid <> c.oid) as referenced,"
    " a.attname, a.atttypid,"
    " t.typsend <> 0 and t.typreceive <> 0 and t.typtype in ('b', 'r', 'm')"
    " and t.typname !~ '^_?(reg|money$|xml$)' as binary"
    " from pg_catalog.pg_class c"
    " join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
    " left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
    " left join pg_catalog.pg_type t on t.oid = a.atttypid"
    " where n.nspname = $1 and c.relname = $2";

const TargetColumn& require_column(const catalog::Table& table, const TargetTable& target, const std::string& name) {
  const auto found = std::ranges::find(target.columns, name, &TargetColumn::name);
  if (found != target.columns.end()) return *found;
  throw Error(ErrorKind::rejected, fmt::format("the target's table has no column {}", quote_identifier(name)))
      .side(Side::target)
      .table(table.name.quoted())
      .hint("Make the target's table like the source's, then run the same command again.");
}

bool is_copied(const catalog::Column& column) {
  return column.generated == ' ' && column.carried && column.name != kGuardColumn;
}

std::string range_condition(const BlockRange& range) {
  auto condition = fmt::format("ctid >= '({},0)'", range.first);
  if (range.end) condition += fmt::format(" AND ctid < '({},0)'", *range.end);
  return condition;
}

}  // namespace

std::string clear_statement(const QualifiedName& name, const TargetTable& target) {
  const std::string rows = (target.kind == 'p' ? "" : "ONLY ") + name.quoted();
  return (target.referenced || target.keep_readers ? "DELETE FROM " : "TRUNCATE ") + rows;
}

Error fenced() {
  return Error(ErrorKind::held_elsewhere, "fenced: another process has taken this replica over")
      .side(Side::target)
      .hint("Look at `pgbaton status`; only one process may write a replica.");
}

TargetTable load_target_table(pg::Connection& target, const QualifiedName& name) {
  const std::array<pg::Parameter, 2> parameters{name.schema, name.name};
  const auto rows = target.exec(kTargetQuery, parameters);
  if (rows.rows() == 0)
    throw Error(ErrorKind::rejected, "the target has no such table")
        .side(Side::target)
        .table(name.quoted())
        .hint("Create it like the source's table, or clone with --schema full.");
  TargetTable table;
  table.kind = rows.value(0, 0).front();
  table.referenced = rows.value(0, 1) == "t";
  for (int i = 0; i < rows.rows(); ++i) {
    if (rows.is_null(i, 2)) continue;
    auto& column = table.columns.emplace_back();
    column.name = rows.text(i, 2);
    const auto oid = rows.value(i, 3);
    std::from_chars(oid.data(), oid.data() + oid.size(), column.type_oid);
    column.binary = rows.value(i, 4) == "t" && column.type_oid < kFirstAssignedOid;
  }
  return table;
}

CopyPlan plan_copy(const catalog::Table& table, const TargetTable& target, bool allow_binary, const BlockRange* range) {
  CopyPlan plan;
  plan.binary = allow_binary;
  std::string columns;
  for (const auto& column : table.columns) {
    if (!is_copied(column)) continue;
    const auto& other = require_column(table, target, column.name);
    plan.binary = plan.binary && other.binary && other.type_oid == column.type_oid;
    plan.columns.push_back(&column);
    columns += (columns.empty() ? "" : ", ") + quote_identifier(column.name);
  }
  plan.columnless = plan.columns.empty();
  const auto filter = table.row_filter.empty() ? "" : " WHERE " + catalog::bracketed(table.row_filter);
  const auto name = table.name.quoted();
  plan.clear = clear_statement(table.name, target);
  plan.probe = fmt::format("SELECT {} FROM ONLY {} LIMIT 0", plan.columnless ? "tableoid" : columns, name);
  if (plan.columnless) {
    plan.read = "SELECT count(*) FROM ONLY " + name + filter;
    plan.write = fmt::format("INSERT INTO {} SELECT FROM pg_catalog.generate_series(1, ", name);
    return plan;
  }
  // Rows that were written by the transaction that emptied the table can be frozen at once; nobody else can see them.
  const bool frozen = range == nullptr && !target.referenced && !target.keep_readers && target.kind == 'r';
  const auto format = plan.binary ? "binary" : "text";
  std::string conditions;
  const auto add = [&](const std::string& condition) {
    conditions += (conditions.empty() ? " WHERE " : " AND ") + condition;
  };
  if (range != nullptr) add(range_condition(*range));
  if (!table.row_filter.empty()) add(catalog::bracketed(table.row_filter));
  const auto what = conditions.empty() ? fmt::format("{} ({})", name, columns)
                                       : fmt::format("(SELECT {} FROM ONLY {}{})", columns, name, conditions);
  plan.read = fmt::format("COPY {} TO STDOUT (FORMAT {})", what, format);
  plan.write = fmt::format("COPY {} ({}) FROM STDIN (FORMAT {}{})", name, columns, format, frozen ? ", FREEZE" : "");
  return plan;
}

}  // namespace pgbaton::copy
