// Drift: a relation that no longer fits its target table. What differs is named column by column, with the statement
// that mends the target; under `drift: add-columns` new columns are mended by the stream itself. Private to the stream.
//
// Example. The source ran ALTER TABLE t ADD COLUMN c timestamptz DEFAULT now(), then RENAME COLUMN a TO b. The recorded
// shape knows attribute 2 as a; on the source attribute 2 is b now and attribute 5 is c, which no record knows:
//   b   was renamed                ALTER TABLE t RENAME COLUMN a TO b              a person's (only names moved)
//   c   is new; the rows that were there have the one moment at which the ALTER ran, which the source still knows:
//                                  ALTER TABLE t ADD COLUMN c … DEFAULT '<moment>'; … SET DEFAULT now()
// Had its default been volatile, each old row would have a value of its own; the source's table has another file then,
// and nothing is added that would make the target's rows differ.
#pragma once
#include <pgbaton/catalog/origin.hpp>
#include <pgbaton/state/store.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "relation_map.hpp"

namespace pgbaton::stream {

enum class Misfit { missing, generated, type, not_sent };
struct Difference {
  Misfit kind = Misfit::missing;
  std::string column;
  std::string text;  // for people
  wire::Oid type_oid = 0;
  std::int32_t type_modifier = -1;
};

// What the stream itself does about it: `statements` run on the target before the first row of the new shape.
struct Mending {
  std::vector<catalog::Column> added;
  std::string statements;
};

// Throws Error(rejected) unless everything is mended.
Mending mend(const DriftPolicy& policy, const SourceRelation& relation, const state::TableState& state,
             pg::Control& target, const catalog::Table& table, std::vector<Difference> differences, Lsn commit_lsn);

}  // namespace pgbaton::stream
