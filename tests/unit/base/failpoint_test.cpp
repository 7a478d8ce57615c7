#include <gtest/gtest.h>

#include <cstdlib>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>

namespace pgbaton {
namespace {

// The variable is read once per process, so each case runs in a child of its own.
void with(const char* failpoints, void (*work)()) {
  ::setenv("PGBATON_FAILPOINTS", failpoints, 1);
  work();
  std::_Exit(0);
}

class FailpointDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(FailpointDeathTest, KillsTheProcess) {
  EXPECT_EXIT(with("a=kill", [] { failpoint("a"); }), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(with("a=kill", [] { failpoint("b"); }), testing::ExitedWithCode(0), "");
}

TEST_F(FailpointDeathTest, ThrowsOnlyTheNthTime) {
  EXPECT_EXIT(with("x=sleep:1,a=error@2",
                   [] {
                     failpoint("x");
                     failpoint("a");
                     try {
                       failpoint("a");
                       std::_Exit(1);
                     } catch (const Error& e) {
                       if (e.action() != Action::retry) std::_Exit(2);
                     }
                     failpoint("a");
                   }),
              testing::ExitedWithCode(0), "");
}

TEST_F(FailpointDeathTest, StopIsFinal) {
  EXPECT_EXIT(with("a=stop",
                   [] {
                     try {
                       failpoint("a");
                     } catch (const Error& e) {
                       std::_Exit(e.action() == Action::stop ? 3 : 4);
                     }
                   }),
              testing::ExitedWithCode(3), "");
}

TEST_F(FailpointDeathTest, RefusesWhatItDoesNotUnderstand) {
  EXPECT_EXIT(with("a=explode",
                   [] {
                     try {
                       failpoint("b");
                     } catch (const Error& e) {
                       std::_Exit(e.kind() == ErrorKind::usage ? 3 : 4);
                     }
                   }),
              testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace pgbaton
