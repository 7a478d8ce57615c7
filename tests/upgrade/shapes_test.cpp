// The same rows as tests/pg/shapes_test.cpp between majors.
#include "support/shapes.hpp"

namespace pgbaton::testing {
namespace {

class ShapesMajorsTest : public ShapesTest {
 protected:
  ClusterOptions source_options() const override {
    auto options = ShapesTest::source_options();
    options.major = 14;
    return options;
  }
  ClusterOptions target_options() const override {
    auto options = ShapesTest::target_options();
    options.major = 17;
    return options;
  }
};

TEST_F(ShapesMajorsTest, EveryShapeFrom14To17) {
  carry();
}

}  // namespace
}  // namespace pgbaton::testing
