// The parts of a check. Each looks at one side (or at both) and adds what it finds.
#pragma once
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/snapshot/check.hpp>

#include <memory>
#include <string>
#include <vector>

#include "plan.hpp"

namespace pgbaton::snapshot {

struct CheckSide {
  std::unique_ptr<pg::Control> connection;
  catalog::Server server;
};

class Findings {
 public:
  explicit Findings(std::vector<Finding> known = {}) : all_(std::move(known)) {}
  void blocker(std::string id, std::string object, std::string message, std::string remedy);
  void warning(std::string id, std::string object, std::string message, std::string remedy);
  void note(std::string id, std::string object, std::string message);
  std::vector<Finding> sorted() &&;

 private:
  std::vector<Finding> all_;
};

// Literals for `= any($1::oid[])` and `= any($1::text[])`.
std::string oid_array(const std::vector<catalog::Oid>& oids);
std::string text_array(const std::vector<std::string>& texts);
// Of the tables that are copied, and of partitioned ones.
std::vector<catalog::Oid> oids_of(const TablePlan& plan);
// "a, b, c, d, e and 12 more"
std::string first_few(const std::vector<std::string>& names);

// What the source's server and role allow.
void check_source_server(const CheckOptions& options, CheckSide& source, Findings& findings);
// Settings that end a slot, a session or a dump too early.
void check_source_settings(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings);
void check_target_settings(const CheckOptions& options, CheckSide& target, Findings& findings);
// What the copy will cost, as far as the catalogs can tell.
void check_estimate(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings);
// Tables: identity, guard, rights, kinds of relations that are not copied.
void check_source_tables(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings);
void check_target(const CheckOptions& options, CheckSide& target, Findings& findings);
// What only both together show: same database, versions, tables that exist; calls the following.
void check_pair(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                Findings& findings);
// Encodings, collations and their versions.
void check_locale(CheckSide& source, CheckSide& target, const TablePlan& plan, Findings& findings);
// What the schema needs that pg_dump does not bring along: roles and rights, extensions, tablespaces, collations.
void check_needs(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                 Findings& findings);
// Rows of tables that belong to extensions, which nothing carries. `target` as far as there is one.
void check_members(const CheckOptions& options, CheckSide& source, CheckSide& target, Findings& findings);
// --schema none: whether the target's own tables fit.
void check_own_tables(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                      const std::vector<catalog::Table>& existing, Findings& findings);
// What foreign keys and triggers of the target's own tables (oids there) do to a copy and a stream, where they act.
void check_own_actions(CheckSide& source, CheckSide& target, const std::vector<catalog::Oid>& own, Findings& findings);

}  // namespace pgbaton::snapshot
