// How one table is compared: what is read on each side, and the expressions that hash it.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/verify/verify.hpp>

#include <array>
#include <string>
#include <vector>

#include "row_hash.hpp"

namespace pgbaton::verify {

enum class Where { source = 0, target = 1 };
inline constexpr std::array kBothSides = {Where::source, Where::target};

// One side of a table.
struct SidePlan {
  catalog::Table table;
  std::vector<const catalog::Column*> columns;  // compared ones, in the same order on both sides; of `table`
  std::vector<std::string> column_hashes;
  // One for each column of the key: "OPERATOR(schema.=)", what its index calls equal. Only after find_key_equality().
  std::vector<std::string> key_equality;
  std::string from;        // "ONLY s.t"; a partitioned table without ONLY
  std::string row_filter;  // the source's rows that are carried; "" all
  std::string key_hash;    // bigint
  std::string row_hash;
};

// "(condition)" of its row filter; "" without one.
std::string in_filter(const SidePlan& side);

struct TablePlan {
  QualifiedName name;
  std::array<SidePlan, 2> sides;
  std::vector<std::size_t> key;  // indexes into columns; empty: no key
  std::int64_t bucket_mask = 0;  // buckets - 1
  std::string condition;         // of --where; "" none
  std::string sample;            // over kh; "" none
  bool guarded = false;          // the target's table has the guard column
  bool target_has_more_columns = false;
  const SidePlan& side(Where where) const { return sides[static_cast<std::size_t>(where)]; }
  // SELECT <key hash> AS kh, <what> FROM … WHERE …, to be put into parentheses; `range` limits it, "" all of it.
  std::string rows(Where where, const std::string& what, const std::string& range = {}) const;
};

// Error(usage) for a name in the filter that no table of the replica has, which would be compared by nobody without a
// word, and for a filter that leaves none.
void require_choice(const catalog::TableFilter& filter, const state::Replica& replica,
                    const std::vector<state::TableState>& states, pg::Control& source);

struct Plans {
  std::vector<TablePlan> tables;
  std::vector<NotCompared> not_compared;
  std::vector<QualifiedName> others;  // of these, those that the source calls otherwise: a table of the name is another
};

// Of the replica's recorded tables, those that `options` choose; `only` limits it to these (empty: all). `seed` makes
// samples differ between runs. Error(rejected) for a table or column that
// the target does not have.
Plans plan_tables(const Options& options, const state::Replica& replica, const std::vector<state::TableState>& states,
                  const std::vector<QualifiedName>& only, pg::Control& source, pg::Control& target, HashStyle style,
                  std::uint32_t seed);

// For repairs, which look rows up by key. The sessions have an empty search_path: operators are named with their
// schema.
void find_key_equality(std::vector<TablePlan>& plans, pg::Control& source, pg::Control& target);

}  // namespace pgbaton::verify
