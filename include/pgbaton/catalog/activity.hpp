// What has been done to tables since their statistics were reset. Read only.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <vector>

namespace pgbaton::catalog {

struct WriteCounts {
  QualifiedName name;
  std::int64_t updates = 0, deletes = 0;
};
// Those of the given tables that have seen an UPDATE or a DELETE.
std::vector<WriteCounts> load_write_counts(pg::Control& connection, const std::vector<std::uint32_t>& oids);

}  // namespace pgbaton::catalog
