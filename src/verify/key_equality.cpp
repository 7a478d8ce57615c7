// Which operator says that two keys are the same: that of the operator class of the unique index over them, else of the
// default class of each column's type. It need not be called `=`, nor stand in pg_catalog (hstore, citext, ltree …).
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include <algorithm>
#include <set>

#include "table_plan.hpp"

namespace pgbaton::verify {
namespace {

constexpr const char* kUsual = "OPERATOR(pg_catalog.=)";

// Of a btree class, the operator of strategy 3.
constexpr const char* kOperator = R"(
(select format('OPERATOR(%I.%s)', n.nspname, p.oprname)
   from pg_opclass c join pg_amop s on s.amopfamily = c.opcfamily and s.amoplefttype = c.opcintype
                                   and s.amoprighttype = c.opcintype and s.amopstrategy = 3
        join pg_operator p on p.oid = s.amopopr join pg_namespace n on n.oid = p.oprnamespace
  where c.oid = {}))";

std::vector<std::string> names_of(const pqxx::field& field) {
  std::vector<std::string> names;
  auto parser = field.as_array();
  for (auto [what, text] = parser.get_next(); what != pqxx::array_parser::juncture::done;
       std::tie(what, text) = parser.get_next())
    if (what == pqxx::array_parser::juncture::string_value) names.push_back(text);
  return names;
}

std::vector<std::string> of_types(pqxx::nontransaction& tx, const SidePlan& side, const std::vector<std::size_t>& key) {
  static const auto sql = fmt::format(R"(
with recursive chain as (
  select oid, typbasetype from pg_type where oid = $1::oid
  union all
  select t.oid, t.typbasetype from chain c join pg_type t on t.oid = c.typbasetype
)
select {} from pg_opclass o join pg_am m on m.oid = o.opcmethod
 where o.opcdefault and m.amname = 'btree' and o.opcintype = (select oid from chain where typbasetype = 0))",
                                      fmt::format(fmt::runtime(kOperator), "o.oid"));
  std::vector<std::string> result;
  for (const auto i : key) {
    const auto rows = tx.exec_params(sql, side.columns[i]->type_oid);
    result.push_back(rows.empty() || rows[0][0].is_null() ? kUsual : rows[0][0].as<std::string>());
  }
  return result;
}

std::vector<std::string> of_index(pqxx::nontransaction& tx, const SidePlan& side, const std::vector<std::size_t>& key) {
  static const auto sql = fmt::format(R"(
select array(select a.attname from unnest(i.indkey::int2[]) with ordinality k(attnum, at)
               join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum and k.attnum > 0
              where k.at <= i.indnkeyatts order by k.at)::text[],
       array(select coalesce({}, '') from unnest(i.indclass::oid[]) with ordinality k(class, at)
              where k.at <= i.indnkeyatts order by k.at)::text[]
  from pg_index i
 where i.indrelid = $1::oid and i.indisunique and i.indimmediate and i.indisvalid and i.indpred is null
   and not i.indisexclusion and i.indnkeyatts = $2
 order by i.indisprimary desc, i.indisreplident desc, i.indexrelid)",
                                      fmt::format(fmt::runtime(kOperator), "k.class"));
  for (const auto& row : tx.exec_params(sql, side.table.oid, static_cast<int>(key.size()))) {
    const auto names = names_of(row[0]), operators = names_of(row[1]);
    std::vector<std::string> result;
    for (const auto i : key) {
      const auto found = std::ranges::find(names, side.columns[i]->name);
      if (found == names.end()) break;
      result.push_back(operators[static_cast<std::size_t>(found - names.begin())]);
    }
    if (result.size() == key.size() && std::ranges::find(result, "") == result.end()) return result;
  }
  return {};
}

}  // namespace

void find_key_equality(std::vector<TablePlan>& plans, pg::Control& source, pg::Control& target) {
  for (const auto where : kBothSides) {
    auto& control = where == Where::source ? source : target;
    pg::control(where == Where::source ? Side::source : Side::target, "reading the operators of keys", [&] {
      pqxx::nontransaction tx(control);
      for (auto& plan : plans) {
        if (plan.key.empty()) continue;
        auto& side = plan.sides[static_cast<std::size_t>(where)];
        side.key_equality = of_index(tx, side, plan.key);
        if (side.key_equality.empty()) side.key_equality = of_types(tx, side, plan.key);
      }
    });
  }
}

}  // namespace pgbaton::verify
