// What cannot be carried is named, before anything starts or by stopping; targets that have tables of their own; parts
// of a database. Each story carries several databases of one pair of servers; tests/pg plays them within one major,
// tests/upgrade between two.
#pragma once
#include "pair.hpp"

namespace pgbaton::testing {

class NamedShapesTest : public PairTest {
 protected:
  void refused_before_anything_is_made();       // S33, S47
  void other_encodings();                       // S33
  void partitioned_on_one_side();               // S34
  void tables_that_the_target_had_before();     // S34
  void constraints_that_only_the_target_has();  // S37, S59
  void shapes_that_drift();                     // S38
  void parts_of_a_database();                   // S45, S46

 private:
  Arguments line(const std::string& database, const std::string& command, const Arguments& more = {});
  ToolResult in(const std::string& database, const std::string& command, const Arguments& more = {});
  void create(const std::string& database, const std::string& source_sql, const std::string& target_sql = "");
  void succeed(const std::string& database, const std::string& command, const Arguments& more = {});
  void expect_equal_in(const std::string& database, const CompareOptions& options = {});
  // "severity id object" of every finding.
  std::vector<std::string> findings(const std::string& database, const Arguments& more = {});
};

}  // namespace pgbaton::testing
