// What of an archive's post-data the target has already.
#pragma once
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/connection.hpp>

#include <set>
#include <string>

namespace pgbaton::copy {

class TargetObjects {
 public:
  // One look at the catalogs; objects made later are not seen.
  static TargetObjects load(pg::Connection& target);
  // True when running the entry again would fail because its object exists. Statements that may be repeated are never
  // present.
  bool has(const TocEntry& entry) const;

 private:
  // class, schema, table ("" where the name is unique in its schema), name
  std::set<std::tuple<std::string, std::string, std::string, std::string>> objects_;
};

}  // namespace pgbaton::copy
