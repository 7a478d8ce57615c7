// Why a replica may not be whole although every change that the source sent is applied. DDL sends nothing, so these
// come from looks at the catalogs (snapshot/recheck.hpp). Stored in pgbaton.doubt; `ready` waits for them to be
// settled, `finish` proves or refuses, `status` and `verify` show them.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::state {

enum class DoubtKind {
  unproven,  // rows may differ: a comparison that finds no difference settles it, and so does a resync
  differs,   // seen in the catalogs; gone when it is not seen any more
  outside    // a table of the source that the replica does not have, or not any more
};
std::string_view to_string(DoubtKind kind);

struct Doubt {
  std::int64_t id = 0;  // 0: not stored yet
  QualifiedName table;
  DoubtKind kind = DoubtKind::unproven;
  std::string reason, remedy;  // for people; without the table's name
  std::string at;              // ISO 8601 in UTC
};

// By table. Empty without a schema, or with one of a version that did not have them.
std::vector<Doubt> load_doubts(pg::Control& target, const std::string& replica);
// Unproven ones of `seen` are added, the other kinds replace what was stored of them; each new one is an event `doubt`.
// Of a table that is outside nothing is unproven.
// Nothing happens when the generation is another one by now.
void store_doubts(pg::Control& target, const std::string& replica, const std::string& generation,
                  const std::vector<Doubt>& seen);
// Unproven ones of these tables, up to this number: the tables were compared afterwards, and are equal.
void settle_doubts(pg::Control& target, const std::string& replica, const std::vector<QualifiedName>& tables,
                   std::int64_t up_to_id);

// Rows that a comparison found to differ.
struct Finding {
  QualifiedName table;
  std::int64_t rows = 0;
  Lsn cut_lsn;
};
// Each is an unproven doubt, and an event `doubt`. A comparison of the whole table replaces what an earlier one found;
// one of a part adds to nothing that is known. Returns the numbers of those that are stored: none in a schema of a
// version that did not have them.
std::set<std::int64_t> store_findings(pg::Control& target, const std::string& replica, const std::string& generation,
                                      const std::vector<Finding>& found, bool whole);
void remove_doubts(pg::Control& target, const std::string& replica, const std::set<std::int64_t>& ids);

}  // namespace pgbaton::state
