// What belongs to the database itself and is in no dump of its schema: its comment, GRANTs on it, ALTER DATABASE … SET
// and ALTER ROLE … IN DATABASE … SET.
#pragma once
#include <pgbaton/pg/endpoint.hpp>

#include <string>
#include <vector>

namespace pgbaton::copy {

struct DatabaseOptions {
  bool settings = true;    // --no-settings
  bool comment = true;     // --no-comments
  bool privileges = true;  // --no-privileges
};

// Repeatable; what the target's database has beyond the source's stays. What the target refuses (the role does not own
// the database, a role or a parameter is missing) is logged as a warning and returned, and fails nothing. Settings that
// load libraries are left out: a library that the target lacks would lock everybody out.
std::vector<std::string> copy_database_properties(const pg::Endpoint& source, const pg::Endpoint& target,
                                                  const DatabaseOptions& options);

// `NAME = VALUE`, the way pg_db_role_setting keeps it, as what follows SET: `"name" TO 'value'`. Lists of names become
// lists of literals.
std::string setting_assignment(const std::string& setting);

}  // namespace pgbaton::copy
