// Every table a real database has: all rows of tests/data/shapes through one clone, in copy and stream.
#include "support/shapes.hpp"

namespace pgbaton::testing {
namespace {

TEST_F(ShapesTest, EveryShapeThroughCopyAndStream) {
  carry();
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
