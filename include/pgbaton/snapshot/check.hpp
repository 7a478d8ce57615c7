// Preflight: everything that would make a clone fail or lose something, found before anything is made (DESIGN 3.1).
// Every session is switched to read-only transactions before its first query, so a check changes nothing on either
// side.
#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/snapshot/clone.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::snapshot {

// A session in which every transaction is read only, whatever function opens it.
std::unique_ptr<pg::Control> open_read_only(const pg::Endpoint& endpoint);

enum class Severity { blocker, warning, note };
std::string_view to_string(Severity severity);

struct Finding {
  std::string id;  // stable, for scripts: "source.wal_level"
  Severity severity = Severity::note;
  std::string object;   // what it is about: a side, a setting, a quoted table
  std::string message;  // what is, and what will happen
  std::string remedy;   // what to do about it; "" when nothing is needed
};

struct CheckOptions {
  CloneOptions clone;  // filter, schema mode, names …; its endpoints are used as far as the flags below say
  bool with_source = true, with_target = true;
  bool resume = false;  // the replica exists: its own objects and tables are no findings
  // Set: the target database is still to be made, from template0, and then takes the place of `live`. The target's
  // endpoint is another database of that server, which is asked for what does not depend on the database.
  struct NewDatabase {
    std::string live, owner;
  };
  std::optional<NewDatabase> new_database;
};

// Whether both connection strings lead to one server each, and to itself: asked before any other question. With a
// blocker among the findings no further connection need work.
std::vector<Finding> check_routes(const CheckOptions& options);

// Blockers first, then warnings, then notes. `known` are findings made before. Throws when a side cannot be reached.
std::vector<Finding> run_check(const CheckOptions& options, const std::vector<Finding>& known = {});

bool has_blocker(const std::vector<Finding>& findings);
// Throws Error(preflight) that lists the blockers, if there are any.
void require_no_blocker(const std::vector<Finding>& findings);

}  // namespace pgbaton::snapshot
