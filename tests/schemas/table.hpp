// A random table: its definition, and what a writer must know of it.
#pragma once
#include <string>
#include <vector>

#include "types.hpp"

namespace pgbaton::schemas {

enum class Identity { primary_key, unique_index, full, deferrable_full, deferrable, none };

struct Column {
  std::string name;  // quoted
  const Type* type;
  bool key = false, generated = false, always = false, identity = false;  // always: GENERATED ALWAYS AS IDENTITY
  std::string reference = {};  // an expression of a value that a foreign key allows, or ""
};

// A column that ALTER TABLE may add while the tool runs; every table has some names in stock.
struct LaterColumn {
  std::string name, definition, value;  // definition: type and default; value: an expression
};

struct Table {
  std::string name;  // schema and all, quoted
  Identity identity = Identity::primary_key;
  std::vector<Column> columns;
  std::vector<std::string> leaves;    // partitions that can be named
  std::vector<std::string> children;  // inheriting tables with the same columns
  std::string turn;                   // an integer column with a unique constraint of its own, or ""
  std::string area;                   // an int4range with an exclusion constraint, or ""
  std::vector<LaterColumn> later;
  std::string definition;  // all statements, rows not included

  bool keyed() const { return identity == Identity::primary_key || identity == Identity::unique_index; }
  bool insert_only() const { return identity == Identity::none || identity == Identity::deferrable; }
  std::vector<const Column*> keys() const;
  std::vector<const Column*> plain() const;  // what an UPDATE can set, no key, neither `turn` nor `area`
};

// The column that statements choose rows by; never part of a key.
extern const char* const kChooser;

// `schema` is quoted and has kOwnTypes; its search_path is (schema, public). Foreign keys lead to `earlier` tables or
// to itself. `grows`: with columns that may come later.
Table make_table(Random& random, const std::string& schema, const std::vector<Table>& earlier, bool grows);

}  // namespace pgbaton::schemas
