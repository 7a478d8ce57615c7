// Every table a real database has: all rows of tests/data/shapes through one clone, in copy and stream.
#include "support/shapes.hpp"

namespace pgbaton::testing {
namespace {

TEST_F(ShapesTest, EveryShapeThroughCopyAndStream) {
  carry();
}

// Where keys, their changes and deletes decide what a guard does: with a ledger in place of the column. Not S29, whose
// tables get another key meanwhile: a ledger is made for one.
TEST_F(ShapesTest, S26_S27_S28_S30_S34_S35_S36_S59_WithALedger) {
  carry({.clone = {"--guard", "ledger"},
         .shapes = "^(s2[3678]|s30|s34|s35|s36|s59|equal_keys|keys_of_every_type|long_keys|row_types|widths)"});
  EXPECT_EQ(guards_, "ledger,none");
}

// An ordinary role owns the target database: no session_replication_role, so foreign keys, triggers and rules come at
// finish, and every constraint is enforced while changes are applied.
TEST_F(ShapesTest, EveryShapeWithAnOrdinaryRoleOnTheTarget) {
  target().exec(
      "create role plain login; alter database postgres owner to plain; grant create on schema public to plain; "
      "create extension citext; create extension hstore; create extension btree_gist");
  carry({.clone = {"--no-owner", "--no-privileges"}, .target_role = "plain"});
}

}  // namespace
}  // namespace pgbaton::testing
