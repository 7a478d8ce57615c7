// Publications that an administrator made (--publication NAME): for a role that owns no tables. They are verified,
// never changed and never dropped (sql/roles_source.sql makes a pair of them).
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/pg/control.hpp>

#include <string>
#include <vector>

namespace pgbaton::snapshot {

struct GivenPublication {
  std::string inserts;  // "NAME__ins", for tables without identity; "" where the source has none of this name
  // Without identity, and published with their updates: UPDATE and DELETE of them fail on the source.
  std::vector<QualifiedName> failing;
};

// Throws Error(preflight) unless NAME exists and publishes insert, update, delete and truncate, NAME__ins (if there is
// one) inserts and truncates only, both whole tables under the names of partitions, and one of them each planned table.
// A table that is published and not planned would stop the stream with its first row: refused, too, unless `joins` says
// that this is a resync of some tables, whose stream passes by the others.
GivenPublication verify_publication(pg::Control& source, const std::string& name,
                                    const std::vector<copy::CopyJob>& jobs, bool joins);

}  // namespace pgbaton::snapshot
