#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <thread>

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

// Also when another thread, which the kernel would give a signal to the process, cannot take it yet.
TEST_F(FailpointDeathTest, FreezesTheThreadThatIsThere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const auto child = ::fork();
  if (child == 0) {
    ::setenv("PGBATON_FAILPOINTS", "a=freeze", 1);
    std::thread arrives([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      failpoint("a");
      if (::write(ends[1], "on", 2) != 2) std::_Exit(2);
    });
    if (::vfork() == 0) {  // the first thread waits for its child
      ::usleep(500'000);
      ::_exit(0);
    }
    arrives.join();
    std::_Exit(0);
  }
  pollfd went_on{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&went_on, 1, 400), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(::poll(&went_on, 1, 0), 1);
  for (const int end : ends) ::close(end);
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
