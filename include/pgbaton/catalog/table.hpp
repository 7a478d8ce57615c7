// Tables as the catalogs describe them. Read only: all of a database in a few set-based queries, so that thousands of
// tables cost no round trips of their own, and no query waits for a lock on a user table. `side` only says where in
// errors; no transaction may be open on the connection.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pgbaton::catalog {

using Oid = std::uint32_t;

struct Column {
  std::string name;
  int number = 0;       // attnum
  std::string version;  // xmin of its row in pg_attribute
  Oid type_oid = 0;
  QualifiedName type;     // the type's own schema and name (pg_type), for comparison across clusters
  std::string cast_type;  // format_type(atttypid, -1): no modifier, so a cast never truncates; quoted, qualified
  std::string full_type;  // format_type(atttypid, atttypmod): for people and ALTER TABLE
  // Somebody made a cast from the type to text, which may say anything: as_text() passes it by.
  bool has_own_text_cast = false;
  // Somebody made a cast from text to the type: a value must then never pass through a parameter of type text.
  bool has_own_cast_from_text = false;
  bool type_is_array = false;    // unnest() of its array would flatten it
  bool has_equality = true;      // false for json, point, xml …: compared as text
  bool type_is_integer = false;  // int2, int4, int8: keys sort by value
  bool not_null = false;
  bool has_default = false;
  char identity = ' ';   // 'a' ALWAYS, 'd' BY DEFAULT, ' ' none
  char generated = ' ';  // 's' stored, 'v' virtual, ' ' none
  int fixed_bytes = 0;   // attlen of a type of fixed width; 0 of others
  bool carried = true;   // false: left out by the column list of a TableChoice
};

enum class Identity {
  full,     // REPLICA IDENTITY FULL and no generated column
  index,    // primary key or USING INDEX, usable (not deferrable, no generated column in it)
  unusable  // none of these: published for insert and truncate only
};

struct Table {
  Oid oid = 0;
  QualifiedName name;
  char kind = 'r';         // relkind: r, p
  char persistence = 'p';  // p, u
  char replica_identity = 'd';
  Identity identity = Identity::unusable;
  std::string identity_reason;                // why it is unusable, for people
  std::vector<std::string> identity_columns;  // in index order; empty for full
  // Column sets that a non-deferrable, non-partial, valid unique index on NOT NULL plain columns covers, primary key
  // first: what ON CONFLICT may name.
  std::vector<std::vector<std::string>> unique_keys;
  std::vector<Column> columns;  // live columns in attnum order, generated ones and the guard column included
  int attribute_count = 0;      // relnatts: dropped columns count too, the server's limit is 1600
  Oid parent_oid = 0;           // direct partitioned parent, 0 for none
  Oid root_oid = 0;             // topmost partitioned ancestor, 0 for none (a root itself: 0)
  std::string parents;          // "oid:xmin" of its rows in pg_inherits, with commas
  bool is_partition = false;
  bool has_children = false;     // plain inheritance
  bool row_type_in_use = false;  // its row type is a column somewhere, or it is a typed table: no guard column possible
  bool has_guard_column = false;
  std::uint64_t bytes = 0;  // heap + TOAST
  std::uint64_t heap_blocks = 0;
  Oid filenode = 0;            // of its present file: another one after each rewrite and TRUNCATE; 0 without a file
  double estimated_rows = -1;  // reltuples; -1 unknown
  Oid owner_extension = 0;     // not 0: belongs to an extension
  bool has_column_list = false;
  std::string row_filter;  // of a TableChoice: which rows are carried; "" all

  const Column* find_column(std::string_view column_name) const;
};

// --include-table and friends. Patterns are exact names by SQL identifier rules, with * and ? as wildcards outside of
// double quotes: unquoted parts fold to lower case, a table without schema is one of schema public.
// Of one table, what is carried: `tables:` in a configuration file. A partitioned table stands for its partitions.
struct TableChoice {
  std::string name;                  // by SQL identifier rules, no wildcards
  std::vector<std::string> columns;  // by SQL identifier rules; empty: all
  std::string where;                 // an SQL condition on the row; "" all rows
  bool operator==(const TableChoice&) const = default;
};

struct TableFilter {
  std::vector<std::string> include_tables{}, exclude_tables{}, include_schemas{}, exclude_schemas{}, exclude_data{};
  std::vector<TableChoice> choices{};
  bool empty() const {
    return include_tables.empty() && exclude_tables.empty() && include_schemas.empty() && exclude_schemas.empty();
  }
};

// Every permanent and unlogged user table and partitioned table, sorted by name; never system schemas, pgbaton's own,
// or tables of an extension. `lookup_only`: just these oids.
std::vector<Table> load_tables(pg::Control& connection, const std::vector<Oid>& lookup_only = {},
                               Side side = Side::source);
std::optional<Table> load_table(pg::Control& connection, const QualifiedName& name, Side side = Side::source);
// Keeps what the filter wants: with include patterns only what one of them (table or schema) matches, then without what
// an exclude pattern matches, and marks what the choices leave out of a table. A pattern or choice that matches nothing
// is Error(usage), also one of exclude_data, which excludes nothing here. Excluding a leaf or root is by name too; a
// partitioned table stands for its partitions.
std::vector<Table> apply_filter(std::vector<Table> tables, const TableFilter& filter);

struct Sequence {
  QualifiedName name;
  std::int64_t last_value = 0, increment = 1, minimum = 0, maximum = 0;
  bool is_called = false, cycles = false;
  bool settable = true;  // the role may call setval() on it
};
// All but those of system schemas, pgbaton and extensions, by name. Values are read from the sequences themselves,
// since pg_sequences hides a setval(…, false). Error(preflight) naming a sequence that the role may not read.
std::vector<Sequence> load_sequences(pg::Control& connection, Side side = Side::source);

}  // namespace pgbaton::catalog
