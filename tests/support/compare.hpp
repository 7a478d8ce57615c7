// The judge: a full comparison of two databases that shares no code with the product and trusts none of its counters.
#pragma once
#include <string>
#include <vector>

namespace pgbaton::testing {

struct CompareOptions {
  std::vector<std::string> exclude;  // "schema.table", as the catalog spells it
  bool sequences = false;            // also last_value and is_called of every sequence
  bool types = true;                 // false: only the names of columns must agree, not their types
  std::size_t max_lines = 20;
};

// Every user table of either side (schema pgbaton and column _pgbaton_lsn aside): same tables, same columns and types,
// and the same multiset of rows as text under pinned settings, found by merging both sides' sorted rows. One line per
// difference, empty when equal. Partitioned tables are compared at their root, inheritance children each alone.
std::vector<std::string> differences(const std::string& source_conninfo, const std::string& target_conninfo,
                                     const CompareOptions& options = {});

// What a run left on the source: slots, publications, walsenders and prepared transactions named pgbaton*, sorted
// ("slot pgbaton").
std::vector<std::string> leftovers(const std::string& source_conninfo);
// The same for the target: schema pgbaton, guard columns, sessions.
std::vector<std::string> target_leftovers(const std::string& target_conninfo);

}  // namespace pgbaton::testing
