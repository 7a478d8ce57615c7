// What sessions do on a server, and have done to its tables. Read only.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pgbaton::catalog {

struct WriteCounts {
  QualifiedName name;
  std::int64_t updates = 0, deletes = 0;
};
// Those of the given tables that have seen an UPDATE or a DELETE.
std::vector<WriteCounts> load_write_counts(pg::Control& connection, const std::vector<std::uint32_t>& oids);

// The oldest snapshot that sessions of this replica hold: vacuum keeps everything that it still sees.
struct HeldSnapshot {
  int pid = 0;
  std::string role;  // of our connection
  double age_seconds = 0;
  std::int64_t age_transactions = 0;
};
std::optional<HeldSnapshot> load_held_snapshot(pg::Control& connection, const std::string& replica_name);

// A session that waits for a lock of ours, or in the queue behind one that does.
struct Waiting {
  int pid = 0;
  std::string user, database, application_name, query;  // "" where the role may not see it; query shortened
  std::string table, mode;                              // of the lock; "" for another kind of lock
  std::string role;                                     // of our connection that it waits for
  double seconds = -1;                                  // -1 not known
};
std::vector<Waiting> load_waiting(pg::Control& connection, const std::string& replica_name);

}  // namespace pgbaton::catalog
