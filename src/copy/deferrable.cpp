#include <fmt/format.h>
#include <fmt/ranges.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <vector>

namespace pgbaton::copy {
namespace {

struct Constraint {
  QualifiedName table;
  std::string name, predicate;
  bool exclusion = false, nulls_are_equal = false;
  std::vector<std::string> keys, operators;  // expressions over the table; operators of an exclusion
};

// Leaves and plain tables: a constraint of a partitioned table stands on each of its partitions, too.
constexpr const char* kConstraints = R"(
select n.nspname, c.relname, quote_ident(k.conname), k.contype = 'x',
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false), coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
       pg_get_indexdef(i.indexrelid, p.at, false),
       coalesce((select format('OPERATOR(%I.%s)', o.nspname, q.oprname) from pg_operator q
                   join pg_namespace o on o.oid = q.oprnamespace where q.oid = k.conexclop[p.at]), '')
  from pg_constraint k join pg_index i on i.indexrelid = k.conindid join pg_class c on c.oid = k.conrelid
  join pg_namespace n on n.oid = c.relnamespace
  join pgbaton.table_state s on s.schema_name = n.nspname and s.table_name = c.relname and s.replica = $1
  cross join lateral generate_series(1, i.indnkeyatts) p(at)
 where k.condeferrable and k.contype in ('p', 'u', 'x') and c.relkind = 'r'
 order by n.nspname, c.relname, k.conname, p.at)";

std::vector<Constraint> load(pqxx::transaction_base& tx, const std::string& replica) {
  std::vector<Constraint> all;
  for (const auto& row : tx.exec_params(kConstraints, replica)) {
    const QualifiedName table{row[0].as<std::string>(), row[1].as<std::string>()};
    const auto name = row[2].as<std::string>();
    if (all.empty() || all.back().table != table || all.back().name != name)
      all.push_back({table, name, row[5].as<std::string>(), row[3].as<bool>(), row[4].as<bool>(), {}, {}});
    all.back().keys.push_back(row[6].as<std::string>());
    all.back().operators.push_back(row[7].as<std::string>());
  }
  return all;
}

// One row "(values)" when two rows violate it. The keys get names of their own first, so that an expression needs no
// prefix in the join of the table with itself.
std::string violation_query(const Constraint& constraint) {
  std::vector<std::string> named, names, known, conflicts;
  for (std::size_t i = 0; i < constraint.keys.size(); ++i) {
    const auto name = fmt::format("k{}", i);
    names.push_back(name);
    named.push_back(fmt::format("{} AS {}", constraint.keys[i], name));
    known.push_back(name + " IS NOT NULL");
    conflicts.push_back(fmt::format("a.{0} {1} b.{0}", name, constraint.operators[i]));
  }
  const auto rows =
      fmt::format("SELECT ctid AS row_at, {} FROM ONLY {}{}", fmt::join(named, ", "), constraint.table.quoted(),
                  constraint.predicate.empty() ? "" : " WHERE " + constraint.predicate);
  if (constraint.exclusion)
    return fmt::format(
        "WITH r AS NOT MATERIALIZED ({}) SELECT row(a.{})::text FROM r a JOIN r b ON {} AND a.row_at < "
        "b.row_at LIMIT 1",
        rows, fmt::join(names, ", a."), fmt::join(conflicts, " AND "));
  return fmt::format("SELECT row({0})::text FROM ({1}) r{2} GROUP BY {0} HAVING count(*) > 1 LIMIT 1",
                     fmt::join(names, ", "), rows,
                     constraint.nulls_are_equal ? "" : fmt::format(" WHERE {}", fmt::join(known, " AND ")));
}

}  // namespace

void require_deferrable_constraints(pg::Control& target, const std::string& replica) {
  pg::control(Side::target, "checking deferrable constraints", [&] {
    pqxx::nontransaction tx(target);
    for (const auto& constraint : load(tx, replica)) {
      log::debug("checking {} of {}", constraint.name, constraint.table.quoted());
      const auto found = tx.exec(violation_query(constraint));
      if (found.empty()) continue;
      throw Error(ErrorKind::rejected,
                  fmt::format("rows violate the deferrable constraint {} of the target, which is not enforced while "
                              "changes are applied",
                              constraint.name))
          .side(Side::target)
          .table(constraint.table.quoted())
          .key(found[0][0].as<std::string>())
          .hint(
              "Mend the rows on the source, or drop the constraint on the target if the source does not have it; "
              "then run the same command again.");
    }
  });
}

}  // namespace pgbaton::copy
