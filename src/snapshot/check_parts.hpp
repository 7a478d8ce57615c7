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

// A session in which every transaction is read only, whatever function opens it.
std::unique_ptr<pg::Control> open_read_only(const pg::Endpoint& endpoint);

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

// What the source's server, settings and role allow.
void check_source_server(const CheckOptions& options, CheckSide& source, Findings& findings);
// Tables: identity, guard, rights, kinds of relations that are not copied.
void check_source_tables(const CheckOptions& options, CheckSide& source, const TablePlan& plan, Findings& findings);
void check_target(const CheckOptions& options, CheckSide& target, Findings& findings);
// What only both together show: same database, encodings, roles, extensions, tables that exist.
void check_pair(const CheckOptions& options, CheckSide& source, CheckSide& target, const TablePlan& plan,
                Findings& findings);

}  // namespace pgbaton::snapshot
