#include "resolve.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/origin.hpp>
#include <pgbaton/catalog/shape.hpp>
#include <pgbaton/catalog/table.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace pgbaton::stream {
namespace {

// Types below FirstNormalObjectId (src/include/access/transam.h) have the same OID on every server of every major.
constexpr wire::Oid kFirstNormalObjectId = 16384;
constexpr wire::Oid kVarcharOid = 1043, kVarbitOid = 1562;

struct TargetType {
  wire::Oid oid = 0;
  std::int32_t modifier = -1;
  QualifiedName base;  // of a domain: what it is over; else the type itself
  std::string equals;  // apply::TargetColumn::equals; "" for the server's own
};

// Of the type's default operator class: citext, hstore and the like have a `=` in the schema of their extension. What
// pg_catalog compares (also as text, anyarray, anyenum …) has no class of its own there.
constexpr const char* kEquals =
    "(select pg_catalog.format('OPERATOR(%I.%s)', on_.nspname, o.oprname) from pg_catalog.pg_opclass k"
    "  join pg_catalog.pg_am m on m.oid = k.opcmethod join pg_catalog.pg_amop s on s.amopfamily = k.opcfamily"
    "   and s.amoplefttype = k.opcintype and s.amoprighttype = k.opcintype"
    "   and s.amopstrategy = case m.amname when 'btree' then 3 else 1 end"
    "  join pg_catalog.pg_operator o on o.oid = s.amopopr join pg_catalog.pg_namespace on_ on on_.oid = o.oprnamespace"
    "  where k.opcintype = t.oid and k.opcdefault and m.amname in ('btree', 'hash') order by m.amname limit 1)";

// One query per relation; the base type because Type messages name a domain's base type (logicalrep_write_typ).
std::map<std::string, TargetType> load_types(pg::Control& target, std::uint32_t table_oid) {
  return pg::control(Side::target, "reading column types", [&] {
    pqxx::read_transaction transaction(target);
    auto rows = transaction.exec_params(
        "with recursive chain as ("
        " select a.attname, a.atttypid as oid, a.atttypmod as modifier, a.atttypid as at from pg_catalog.pg_attribute a"
        "  where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped"
        " union all select c.attname, c.oid, c.modifier, t.typbasetype from chain c"
        "  join pg_catalog.pg_type t on t.oid = c.at where t.typtype = 'd')"
        "select c.attname, c.oid, c.modifier, n.nspname, t.typname, coalesce(" +
            std::string(kEquals) +
            ", '') "
            "from chain c join pg_catalog.pg_type t on t.oid = c.at join pg_catalog.pg_namespace n on n.oid = "
            "t.typnamespace"
            " where t.typtype <> 'd'",
        table_oid);
    std::map<std::string, TargetType> types;
    for (const auto& row : rows) {
      types[row[0].as<std::string>()] = {row[1].as<wire::Oid>(),
                                         row[2].as<std::int32_t>(),
                                         {row[3].as<std::string>(), row[4].as<std::string>()},
                                         row[5].as<std::string>()};
    }
    return types;
  });
}

// A source value must arrive unchanged: numeric(10,4) into numeric(10,2) would be rounded without an error.
bool modifier_fits(wire::Oid type_oid, std::int32_t source, std::int32_t target) {
  if (target == -1 || source == target) return true;
  const bool only_longer = type_oid == kVarcharOid || type_oid == kVarbitOid;
  return only_longer && source != -1 && target > source;
}

using Differences = std::vector<Difference>;

// Appends what does not fit; a column that is added by a definition of the stream's own has the source's type.
void compare_column(const SourceColumn& source, const ToResolve& request, const catalog::Table& table,
                    const std::map<std::string, TargetType>& types, Differences& differences) {
  const auto quoted = quote_identifier(source.name);
  const auto differs = [&](Misfit kind, std::string text) {
    differences.push_back({kind, source.name, std::move(text), source.type_oid, source.type_modifier});
  };
  const auto* column = table.find_column(source.name);
  if (column == nullptr) return differs(Misfit::missing, fmt::format("column {} is missing on the target", quoted));
  if (column->generated != ' ')
    return differs(Misfit::generated, fmt::format("column {} is generated on the target only", quoted));
  const auto found = types.find(source.name);
  if (found == types.end()) return;
  const TargetType& type = found->second;
  if (source.type_oid < kFirstNormalObjectId) {
    if (type.oid != source.type_oid) return differs(Misfit::type, "");
  } else if (auto named = request.types.find(source.type_oid); named != request.types.end()) {
    if (named->second != column->type && named->second != type.base) return differs(Misfit::type, "");
  }
  if (!modifier_fits(source.type_oid, source.type_modifier, type.modifier)) differs(Misfit::type, "");
}

Differences find_differences(const ToResolve& request, const catalog::Table& table) {
  Differences differences;
  const auto types = load_types(request.target, table.oid);
  for (const auto& column : request.relation.columns) compare_column(column, request, table, types, differences);
  // A column that the source no longer has, and that cannot be left out, would fail on the first insert.
  for (const auto& column : table.columns) {
    const bool sent =
        std::ranges::any_of(request.relation.columns, [&](const SourceColumn& c) { return c.name == column.name; });
    const bool may_be_left_out =
        !column.not_null || column.has_default || column.identity != ' ' || column.generated != ' ';
    if (sent || may_be_left_out || column.name == kGuardColumn) continue;
    differences.push_back({Misfit::not_sent, column.name,
                           fmt::format("column {} is NOT NULL without a default on the target and no longer sent by "
                                       "the source",
                                       quote_identifier(column.name))});
  }
  return differences;
}

// The target's table that stands for the source's, whatever both are called by now; nothing when it is gone or was
// never recorded, and then the name decides.
std::optional<catalog::Table> meant_table(const ToResolve& request) {
  if (request.state.target_oid == 0) return std::nullopt;
  auto tables = catalog::load_tables(request.target, {request.state.target_oid}, Side::target);
  if (tables.empty()) return std::nullopt;
  return std::move(tables.front());
}

// For a table whose name another one is to get: three may exchange theirs.
std::string free_name(pg::Control& target, const QualifiedName& name) {
  constexpr std::size_t kRoom = 54;  // of 63 bytes
  std::size_t cut = std::min(kRoom, name.name.size());
  while (cut > 0 && cut < name.name.size() && (static_cast<unsigned char>(name.name[cut]) & 0xC0) == 0x80)
    --cut;  // not inside a UTF-8 character
  const auto base = name.name.substr(0, cut);
  auto free = base + "__was";
  for (int i = 2; catalog::load_table(target, {name.schema, free}, Side::target); ++i)
    free = fmt::format("{}__was{}", base, i);
  return free;
}

catalog::Table find_target(const ToResolve& request) {
  auto& target = request.target;
  const auto& relation = request.relation;
  auto meant = meant_table(request);
  if (meant && meant->name == relation.name) return *meant;
  const auto named = catalog::load_table(target, relation.name, Side::target);
  if (!meant && named) return *named;
  if (!meant && relation.name != request.state.name)
    meant = catalog::load_table(target, request.state.name, Side::target);
  // The name may be taken: then names were exchanged, and the other table gets its own when its turn comes.
  const bool renamed = meant.has_value();
  std::string statements;
  if (renamed && named)
    statements = fmt::format("ALTER TABLE {} RENAME TO {}; ", named->name.quoted(),
                             quote_identifier(free_name(target, named->name)));
  if (renamed) statements += catalog::rename_statements(request.policy.source(), target, meant->name, relation.name);
  const auto message = renamed
                           ? "the table was renamed on the source; the target still calls it " + meant->name.quoted()
                           : "the table does not exist on the target";
  state::Store(target).tell_event(
      request.policy.replica, "drift",
      {{"table", relation.name.quoted()}, {"commit_lsn", to_string(request.commit_lsn)}, {"message", message}});
  throw Error(ErrorKind::rejected, message)
      .side(Side::target)
      .table(relation.name.quoted())
      .lsn(request.commit_lsn)
      .hint(renamed ? "On the target run: " + statements + "then run the same command again; nothing is lost meanwhile."
                    : "Create it on the target as it is on the source, or start anew with `pgbaton clone --restart`.");
}

bool same_set(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::set<std::string>(a.begin(), a.end()) == std::set<std::string>(b.begin(), b.end());
}

// REPLICA IDENTITY FULL flags every column; the target's own key, if it has one, finds the row faster and is guarded.
// It must be one of the source, too: there, rows that agree in it may be different ones otherwise.
std::vector<std::string> key_columns(const ToResolve& request, const catalog::Table& table) {
  const auto& relation = request.relation;
  std::vector<std::string> key;
  if (relation.replica_identity == 'f') {
    if (table.unique_keys.empty()) return {};
    const auto source = catalog::load_tables(request.policy.source(), {relation.oid});
    for (const auto& candidate : table.unique_keys) {
      const bool all_sent = std::ranges::all_of(candidate, [&](const std::string& name) {
        return std::ranges::any_of(relation.columns, [&](const SourceColumn& c) { return c.name == name; });
      });
      const bool of_both = source.empty() || std::ranges::any_of(source.front().unique_keys,
                                                                 [&](const auto& k) { return same_set(k, candidate); });
      if (all_sent && of_both) return candidate;
    }
    return {};
  }
  for (const auto& column : relation.columns) {
    if (column.is_key) key.push_back(column.name);
  }
  return key;
}

// The ledger must be the one that was made for this key: with another, guards of different rows would be one.
void use_ledger(pg::Control& target, const state::TableState& state, apply::TargetTable& table, Lsn commit_lsn) {
  std::string key, key_types;
  for (std::size_t i : table.key) {
    key += (key.empty() ? "" : ", ") + table.columns[i].quoted;
    key_types += (key_types.empty() ? "" : ", ") + table.columns[i].cast_type;
  }
  const auto ledger = QualifiedName{std::string(kStateSchema), state.ledger}.quoted();
  const auto ledger_types = pg::control(Side::target, "reading the ledger " + ledger, [&] {
    pqxx::read_transaction transaction(target);
    return transaction
        .exec_params1(
            "select coalesce(string_agg(format_type(atttypid, -1), ', ' order by attnum), '') from "
            "pg_catalog.pg_attribute where attrelid = to_regclass($1) and attname ~ '^k[0-9]+$' and not attisdropped",
            ledger)[0]
        .as<std::string>();
  });
  const auto refuse = [&](const std::string& message) {
    throw Error(ErrorKind::rejected, message)
        .side(Side::target)
        .table(table.quoted)
        .lsn(commit_lsn)
        .hint("Start anew with `pgbaton clone --restart`.");
  };
  if (ledger_types.empty()) refuse(fmt::format("the table's ledger {} is missing on the target", ledger));
  if (key != state.ledger_key || key_types != ledger_types)
    refuse(
        fmt::format("the table's ledger {} was made for the key ({}) of type ({}), the source now sends ({}) of "
                    "type ({})",
                    ledger, state.ledger_key, ledger_types, key, key_types));
  table.guard = apply::GuardMode::ledger;
  table.ledger = ledger;
}

std::shared_ptr<const apply::TargetTable> make_table(const ToResolve& request, const catalog::Table& table) {
  const auto& relation = request.relation;
  auto resolved = std::make_shared<apply::TargetTable>();
  resolved->source_oid = relation.oid;
  resolved->name = table.name;
  resolved->quoted = table.name.quoted();
  resolved->old_rows_are_full = relation.replica_identity == 'f';
  const auto key = key_columns(request, table);
  const auto types = load_types(request.target, table.oid);
  for (const auto& sent : relation.columns) {
    const auto& column = *table.find_column(sent.name);
    apply::TargetColumn to;
    to.name = column.name;
    to.quoted = quote_identifier(column.name);
    to.cast_type = column.cast_type;
    to.has_own_text_cast = column.has_own_text_cast;
    to.has_own_cast_from_text = column.has_own_cast_from_text;
    to.type_is_array = column.type_is_array;
    to.type_is_integer = column.type_is_integer;
    to.has_equality = column.has_equality;
    if (const auto type = types.find(column.name); type != types.end() && !type->second.equals.empty())
      to.equals = type->second.equals;
    to.identity_always = column.identity == 'a';
    to.is_key = std::find(key.begin(), key.end(), column.name) != key.end();
    if (to.is_key) resolved->key.push_back(resolved->columns.size());
    resolved->columns.push_back(std::move(to));
  }
  resolved->key_is_arbiter =
      !key.empty() && std::any_of(table.unique_keys.begin(), table.unique_keys.end(),
                                  [&](const auto& candidate) { return same_set(candidate, key); });
  if (request.state.guard == state::GuardKind::column && !key.empty() && !table.has_guard_column) {
    throw Error(ErrorKind::rejected, "the guard column is missing on the target")
        .side(Side::target)
        .table(resolved->quoted)
        .lsn(request.commit_lsn)
        .hint("Somebody dropped it. Start anew with `pgbaton clone --restart`.");
  }
  resolved->guard = table.has_guard_column && !key.empty() ? apply::GuardMode::column : apply::GuardMode::none;
  if (request.state.guard == state::GuardKind::ledger && !key.empty())
    use_ledger(request.target, request.state, *resolved, request.commit_lsn);
  return resolved;
}

// The number of the column that the record knows by this name. A name that it knows as a former one may be another
// column's by now, but was this one's when that other one is not sent.
int recorded_number(const catalog::Shape& shape, const std::string& column) {
  if (const auto former = shape.former.find(column); former != shape.former.end()) return former->second;
  return shape.number_of(column);
}

// What the column is called now: by the record if that is newer than the change, else on the source.
std::string present_name(const ToResolve& request, const catalog::Shape& shape, int number) {
  const auto& sent = request.relation.columns;
  const auto recorded = shape.columns.find(number);
  if (recorded == shape.columns.end()) return {};
  const bool is_sent = std::ranges::any_of(sent, [&](const auto& column) { return column.name == recorded->second; });
  if (!is_sent) return recorded->second;
  const auto origins = catalog::load_origins(request.policy.source(), request.relation.oid, request.state.source_shape);
  if (!origins) return {};
  const auto now = std::ranges::find(origins->columns, number, &catalog::ColumnOrigin::number);
  return now == origins->columns.end() ? std::string() : now->name;
}

// A change from before a column was renamed names it as it was then. Where the target has the new name already, that is
// the column: the rename was applied by hand, between two changes of one transaction, or by a statement of a hint.
SourceRelation with_present_names(const ToResolve& request, const catalog::Table& table) {
  auto relation = request.relation;
  const auto shape = catalog::parse_shape(request.state.source_shape);
  if (!shape) return relation;
  for (auto& column : relation.columns) {
    const bool was_renamed = shape->former.contains(column.name);
    if (table.find_column(column.name) != nullptr && !was_renamed) continue;
    const int number = recorded_number(*shape, column.name);
    if (number == 0) continue;
    const auto name = present_name(request, *shape, number);
    const bool is_sent = std::ranges::any_of(request.relation.columns, [&](const auto& c) { return c.name == name; });
    if (name.empty() || is_sent || table.find_column(name) == nullptr) continue;
    log::info("{}: changes from before column {} became {} go into the latter", table.name.quoted(),
              quote_identifier(column.name), quote_identifier(name));
    column.name = name;
  }
  return relation;
}

}  // namespace

Resolution resolve_table(const ToResolve& sent) {
  catalog::Table table = find_target(sent);
  const auto relation = with_present_names(sent, table);
  const ToResolve request{sent.target, sent.policy, relation, sent.state, sent.types, sent.added, sent.commit_lsn};
  const auto add = [&](const std::vector<catalog::Column>& columns) {
    for (const auto& column : columns)
      if (table.find_column(column.name) == nullptr) table.columns.push_back(column);
  };
  add(request.added);
  Resolution resolution;
  if (const auto differences = find_differences(request, table); !differences.empty()) {
    resolution.mending =
        mend(request.policy, relation, request.state, request.target, table, differences, request.commit_lsn);
    add(resolution.mending.added);
  }
  resolution.table = make_table(request, table);
  return resolution;
}

}  // namespace pgbaton::stream
