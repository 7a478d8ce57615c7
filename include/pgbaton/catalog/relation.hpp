// What relations are called now. A replica knows its tables by their oid: a name may be another table's by now.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>

#include <map>
#include <vector>

namespace pgbaton::catalog {

struct Relation {
  QualifiedName name;
  char kind = 'r';  // relkind: a table may have become a view (CREATE RULE "_RETURN", up to 15)
};

// Those of these oids that pg_class has, of whatever kind and schema, also what load_tables() leaves out (members of
// extensions). Only an oid that is missing here is a relation that was dropped.
std::map<Oid, Relation> load_relations(pg::Control& connection, const std::vector<Oid>& oids, Side side = Side::source);

}  // namespace pgbaton::catalog
