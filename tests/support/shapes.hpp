// Every shape of table that a real database has, as rows of files in tests/data/shapes, all carried by one clone.
//
//   === name [superuser]     a row: its own schema of this name, in the search path of all that follows; a word of
//                            explanation may stand below. superuser: only where the target's role is one
//   --- source               run as a whole on the source before the clone
//   --- live                 one statement (or several, at once) per line, while the tables are being copied; a line
//   that
//                            begins with a blank continues the one before
//   --- between              on the target, after the clone
//   --- stream               as live, while the follower runs
//   --- differs              tables whose rows may differ; `catalog`: definitions may
//   --- query                each line yields the same on both sides, after finish
//   --- target               statements that succeed on the target after finish, with sequences set
//   --- refused              statements that a constraint of the target refuses after finish
#pragma once
#include <string>
#include <vector>

#include "pair.hpp"

namespace pgbaton::testing {

struct Shape {
  std::string name;
  bool superuser = false;
  std::string source;
  std::vector<std::string> live, between, stream, query, target, refused;
  std::vector<std::string> differs;
};
// Of all files, in their order, those whose names match. PGBATON_TEST_SHAPE=regex chooses further among them.
std::vector<Shape> load_shapes(const std::string& pattern = "");

struct ShapesOptions {
  Arguments clone;               // more arguments for check and clone
  std::string target_role = "";  // "" for the superuser
  std::string shapes = "";       // a regular expression of their names; "" for all
};

class ShapesTest : public PairTest {
 protected:
  ClusterOptions source_options() const override;
  ClusterOptions target_options() const override;
  // clone with LIVE changes, follow with streamed ones, drain, sequences, finish; compared after every step. Failures
  // name the row.
  void carry(const ShapesOptions& options = {});
  std::string guards_;  // the kinds that the tables had, "column,none", after carry()

 private:
  void prepare(const ShapesOptions& options);
  void clone(const ShapesOptions& options);
  void follow();
  void finish();
  void expect_no_word_of_definitions(const std::string& out) const;
  void tell_time(const std::string& when) const;
  void compare(const std::string& when);
  void compare_definitions();
  void ask(const Shape& shape);
  // The statements of all rows, one after the other, with small transactions of another session beside them.
  void change_source(std::vector<std::string> Shape::*lines);
  void run_lines(Cluster& cluster, const Shape& shape, const std::vector<std::string>& lines);
  Arguments tool(const std::string& command, const Arguments& more = {}) const;

  std::vector<Shape> shapes_;
  std::string target_role_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace pgbaton::testing
