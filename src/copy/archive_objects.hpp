// What the entries of an archive hang on, from the catalogs as the snapshot sees them.
#pragma once
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/connection.hpp>

#include <vector>

namespace pgbaton::copy {

// Fills table, table_kind, object, populated, referenced and left_out of every entry. `source` is in the snapshot's
// transaction.
void resolve_objects(pg::Connection& source, const std::vector<QualifiedName>& excluded_tables,
                     std::vector<TocEntry>& entries);

// {"a","b"}: an array literal of the text form.
std::string text_array(const std::vector<std::string>& values);

}  // namespace pgbaton::copy
