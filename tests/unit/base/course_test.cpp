#include <gtest/gtest.h>
#include <pgbaton/base/course.hpp>

namespace pgbaton {
namespace {

TEST(CourseTest, KeepsStepsWithTheirTimesAndNotes) {
  Course course;
  course.end("nothing is under way");
  EXPECT_TRUE(course.look().steps.empty());
  course.begin("copy");
  course.begin("swap");  // ends the one before
  course.know("generation", "8");
  course.know("generation", "9");
  auto look = course.look();
  ASSERT_EQ(look.steps.size(), 2u);
  EXPECT_TRUE(look.steps[0].ended);
  EXPECT_FALSE(look.steps[1].ended);
  EXPECT_GE(*look.steps[0].ended, look.steps[0].begun);
  EXPECT_EQ(look.facts.at("generation"), "9");
  course.end("new sessions waited 36 ms");
  course.end("twice");
  look = course.look();
  EXPECT_TRUE(look.steps[1].ended);
  EXPECT_EQ(look.steps[1].note, "new sessions waited 36 ms");
}

TEST(CourseTest, APauseGrowsUntilItIsOver) {
  Course course;
  course.pause_over();
  EXPECT_FALSE(course.look().pause) << "nobody waited";
  course.pause_since(Clock::now() - Milliseconds(500));
  EXPECT_TRUE(course.look().pausing);
  EXPECT_GE(*course.look().pause, Milliseconds(500));
  course.pause_over();
  const auto whole = *course.look().pause;
  EXPECT_FALSE(course.look().pausing);
  EXPECT_GE(whole, Milliseconds(500));
  course.pause_over();
  EXPECT_EQ(*course.look().pause, whole);
}

}  // namespace
}  // namespace pgbaton
