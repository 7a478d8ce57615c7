// The stories of support/named_shapes.hpp within one major.
#include "support/named_shapes.hpp"

namespace pgbaton::testing {
namespace {

TEST_F(NamedShapesTest, S37_S59_ConstraintsThatOnlyTheTargetHas) {
  constraints_that_only_the_target_has();
}

TEST_F(NamedShapesTest, S33_S47_RefusedBeforeAnythingIsMade) {
  refused_before_anything_is_made();
}

TEST_F(NamedShapesTest, S33_OtherEncodings) {
  other_encodings();
}

TEST_F(NamedShapesTest, S34_PartitionedOnOneSide) {
  partitioned_on_one_side();
}

TEST_F(NamedShapesTest, S34_TablesThatTheTargetHadBefore) {
  tables_that_the_target_had_before();
}

}  // namespace
}  // namespace pgbaton::testing
