// Where the columns of a table came from: the columns as they were recorded once, against those of now. An attribute
// number belongs to one column for ever, so it tells a renamed column (same number, other name) from one that was added
// (a number that was not recorded) or dropped (a recorded one that is gone). Read only.
#pragma once
#include <pgbaton/catalog/table.hpp>

#include <optional>
#include <string>
#include <vector>

namespace pgbaton::catalog {

struct ColumnOrigin {
  std::string name;  // now
  int number = 0;
  std::string recorded_name;       // "" when it was not recorded: the column came later
  std::string type;                // for ALTER TABLE, with COLLATE where it is not the type's own
  std::string default_expression;  // "" none
  bool not_null = false;
  char identity = ' ', generated = ' ';
  // An SQL literal of what rows older than the column hold (NULL, or the value that its default had when it was added);
  // nothing when each may hold another one: the table was rewritten since the shape was recorded.
  std::optional<std::string> old_value;
  QualifiedName defined_at;  // the table whose column it is: a partition or child gets it from there
};
struct DroppedColumn {
  int number = 0;
  std::string recorded_name;
};
struct Origins {
  QualifiedName name;  // of the table, now
  std::vector<ColumnOrigin> columns;
  std::vector<DroppedColumn> dropped;

  const ColumnOrigin* find(std::string_view column_name) const;
};

// What adds a column with what older rows hold, and what gives it its default for rows to come. The former comes first
// and the latter only when no row of before is on its way any more: such a row takes the column's default.
struct ColumnAddition {
  std::string statement, afterwards;
};
ColumnAddition add_column(const ColumnOrigin& column, bool repeatable);

// What gives the column of the target's table, called `place` in the statements, the type of the source's: where
// columns exchanged their names, the same renames (the same text for each of them); where one was made again under its
// name, DROP and ADD; else ALTER … TYPE, which may meet values that cannot be cast.
struct Retyping {
  std::string statements;  // each with "; " behind it
  bool casts = false;
};
Retyping retype(const Origins& origins, const ColumnOrigin& column, const Table& target, const QualifiedName& place);

// What gives the target's table `from` the name that it has on the source: ALTER TABLE statements, each with "; "
// behind it; "" when the names are the same. Where the schema as a whole was renamed on the source, ALTER SCHEMA does.
std::string rename_statements(pg::Control& source, pg::Control& target, const QualifiedName& from,
                              const QualifiedName& to);

// Nothing when the table is gone. `recorded_shape` is a Shape as JSON (shape.hpp), or "".
std::optional<Origins> load_origins(pg::Control& source, Oid table, const std::string& recorded_shape);

}  // namespace pgbaton::catalog
