// The catalog queries, by server version (12 to 18). Result shapes are stated here; tables.cpp reads them by name.
#pragma once
#include <string>

namespace pgbaton::catalog {

// `$1` of each is an oid[] of tables to look at, or NULL for all.

// One row per table, ordered by schema and name: oid, schema, name, kind, persistence, replica_identity,
// attribute_count, parent_oid, root_oid, typed, has_children, bytes, heap_blocks, filenode,
// estimated_rows.
std::string tables_query(int version_num);
// One row per live column, ordered by table and number: table_oid, name, number, type_oid, type_schema, type_name,
// cast_type, full_type, is_array, is_integer, not_null, has_default, identity, generated.
std::string columns_query(int version_num);
// One row per unique index that is valid and checked at once, primary key first, then by name: table_oid, is_primary,
// is_identity (indisreplident), is_exclusion, is_partial, columns (text[] of names in index order; an expression is an
// empty name). INCLUDE columns are left out.
std::string unique_indexes_query();
// Tables that have a deferrable primary key: table_oid.
std::string deferrable_keys_query();
// Types among the columns' types ($1: oid[], not NULL) that have no `=` which a default operator class stands behind,
// however deep inside an array, domain, range or row it is missing: type_oid.
std::string types_without_equality_query(int version_num);
// Tables whose row type is used in a column of some relation, directly or inside another type: table_oid. No `$1`.
std::string row_types_in_use_query(int version_num);
// One row per column type of user tables and type that it is made of (type.hpp): root (the column's type), schema,
// name, kind, not_null, base, labels, attribute_names, attribute_types, constraint_names, constraint_texts (text[]). No
// `$1`.
std::string types_query(int version_num);
// Columns with a collation that is not their type's own: table_oid, name, collation (quoted, qualified). No `$1`.
std::string collations_query();
// One row per sequence: oid, schema, name, increment, minimum, maximum, cycles, readable. No `$1`.
std::string sequences_query();

}  // namespace pgbaton::catalog
