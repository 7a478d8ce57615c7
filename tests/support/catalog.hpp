// The judge of everything around the rows: definitions, rights, comments, settings. Shares no code with the product.
#pragma once
#include <string>
#include <vector>

namespace pgbaton::testing {

struct CatalogOptions {
  bool owners = true;      // who owns and may do what
  bool same_major = true;  // also texts that the server prints, and that differ between majors
};

// One line per object or property that only one of the databases has, "source: …" or "target: …", each with its schema
// in front ("s.t: column …"). Sequences' values, rows, oids and the order of columns are not compared.
std::vector<std::string> catalog_differences(const std::string& source_conninfo, const std::string& target_conninfo,
                                             const CatalogOptions& options = {});

}  // namespace pgbaton::testing
