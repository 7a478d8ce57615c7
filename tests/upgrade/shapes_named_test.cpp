// The stories of support/named_shapes.hpp between majors.
#include "support/named_shapes.hpp"

namespace pgbaton::testing {
namespace {

class NamedShapesMajorsTest : public NamedShapesTest {
 protected:
  ClusterOptions source_options() const override { return {.major = 14}; }
  ClusterOptions target_options() const override { return {.major = 17}; }
};

TEST_F(NamedShapesMajorsTest, S33_S34_S37_S38_S45_S46_S47_S59_From14To17) {
  refused_before_anything_is_made();  // first: it looks for what is left of any replica
  constraints_that_only_the_target_has();
  other_encodings();
  partitioned_on_one_side();
  tables_that_the_target_had_before();
  shapes_that_drift();
  parts_of_a_database();
}

}  // namespace
}  // namespace pgbaton::testing
