// What a database has beside its rows (sql/definitions.sql): DDL sends nothing, and no comparison of rows shows an
// index, a constraint, a policy, a trigger or a function that was made or dropped on the source since the clone.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <set>
#include <string>
#include <vector>

namespace pgbaton::catalog {

struct Definition {
  std::string kind{};          // table, view, index, constraint, "not null", default, policy, trigger, function …
  QualifiedName relation{};    // of a function its own name
  std::string part{};          // within the relation; argument types of a function; "" for the relation itself
  std::string called{};        // for people: unique index "x"
  std::string referenced{};    // the table that a foreign key refers to, quoted
  std::string text{};          // equal where the definitions are; without casts and brackets
  std::string make{}, take{};  // statements
  bool enforces = false;       // only the target has it, and it matters there
};

std::vector<Definition> load_definitions(pg::Control& connection, Side side);

struct DefinitionScope {
  std::set<QualifiedName> tables{};  // that are carried; nothing is said of others
  bool whole = true;                 // the whole database: views and functions, too
  bool texts = true;  // false where the same definition may read otherwise: an older target, another encoding
};

struct DefinitionDifference {
  std::string object;  // quoted
  std::string message, remedy;
};

// In the order of kind and name. Relations that only one side has are other checks' business, except views. Of what
// only the target has those are told that change what it takes or does.
std::vector<DefinitionDifference> compare_definitions(const std::vector<Definition>& source,
                                                      const std::vector<Definition>& target,
                                                      const DefinitionScope& scope);

}  // namespace pgbaton::catalog
