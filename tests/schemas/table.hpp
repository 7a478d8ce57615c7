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
};

struct Table {
  std::string name;  // schema and all, quoted
  Identity identity = Identity::primary_key;
  std::vector<Column> columns;
  std::vector<std::string> leaves;    // partitions that can be named
  std::vector<std::string> children;  // inheriting tables with the same columns
  std::string turn;                   // an integer column with a unique constraint of its own, or ""
  std::string definition;             // all statements, rows not included

  bool keyed() const { return identity == Identity::primary_key || identity == Identity::unique_index; }
  bool insert_only() const { return identity == Identity::none || identity == Identity::deferrable; }
  std::vector<const Column*> keys() const;
  std::vector<const Column*> plain() const;  // what an UPDATE can set, no key, not `turn`
};

// The column that statements choose rows by; never part of a key.
extern const char* const kChooser;

// `schema` is quoted and has kOwnTypes; its search_path is (schema, public).
Table make_table(Random& random, const std::string& schema, int number);

}  // namespace pgbaton::schemas
