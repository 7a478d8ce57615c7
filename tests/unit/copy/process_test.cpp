#include <pgbaton/copy/process.hpp>

#include <gmock/gmock.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/time.hpp>

#include <cstdlib>
#include <thread>

namespace pgbaton::copy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Outcome shell(const std::string& script, const std::stop_token& stop = {}) {
  return run_command({"/bin/sh", {"-c", script}, {{"PGPASSWORD", "a b'c"}}}, stop);
}

TEST(Process, ReturnsBothStreamsAndTheExitCode) {
  const auto outcome = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(outcome.output, "out\n");
  EXPECT_EQ(outcome.errors, "err\n");
  EXPECT_EQ(outcome.exit_code, 7);
}

TEST(Process, AddsToTheEnvironmentAndPassesArgumentsUnchanged) {
  EXPECT_EQ(run_command({"/bin/sh", {"-c", "printf %s \"$X\""}, {{"X", "a b'c"}}}, {}).output, "a b'c");
  EXPECT_EQ(run_command({"/usr/bin/printf", {"%s|", "a b", "", "\"$x\""}, {}}, {}).output, "a b||\"$x\"|");
}

// A password is in neither the environment nor a file that has a name; what libpq reads is there.
TEST(Process, APasswordIsHandedOverByADescriptor) {
  ::setenv("PGBATON_TARGET", "host=h password=topsecret", 1);
  ::setenv("PGPASSFILE", "/somewhere", 1);
  const auto run = [](const std::string& password, const std::string& script) {
    return run_command({"/bin/sh", {"-c", script}, {{"PGPASSWORD", password}}}, {}).output;
  };
  EXPECT_EQ(run("a b'c", "cat \"$PGPASSFILE\"; stat -L -c %a \"$PGPASSFILE\""), "*:*:*:*:a b'c\n600\n");
  EXPECT_EQ(run("a:b\\c", "cat \"$PGPASSFILE\""), "*:*:*:*:a\\:b\\\\c\n");
  EXPECT_EQ(run("marked", "env; tr '\\0' '\\n' < /proc/self/environ | grep -c marked"),
            run("other", "env; tr '\\0' '\\n' < /proc/self/environ | grep -c marked"));
  EXPECT_THAT(run("x", "env"), ::testing::AllOf(HasSubstr("PGBATON_TARGET=host=h\n"), Not(HasSubstr("topsecret"))));
  EXPECT_EQ(run("two\nlines", "printf %s \"$PGPASSWORD\""), "two\nlines") << "a password file cannot hold it";
  ::unsetenv("PGBATON_TARGET");
  ::unsetenv("PGPASSFILE");
}

TEST(Process, KeepsAllOutputAndTheEndOfErrors) {
  const auto outcome =
      shell("i=0; while [ $i -lt 20000 ]; do echo 0123456789; echo 0123456789 >&2; i=$((i+1)); done; echo last >&2");
  EXPECT_EQ(outcome.output.size(), 220000u);
  EXPECT_LE(outcome.errors.size(), kErrorsBytes);
  EXPECT_THAT(outcome.errors, HasSubstr("last"));
}

TEST(Process, HasNoInput) {
  EXPECT_EQ(shell("cat").exit_code, 0);
}

TEST(Process, NamesAProgramThatCannotBeStarted) {
  try {
    run_command({"/nowhere/pg_dump", {}, {}}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("/nowhere/pg_dump: No such file"));
  }
}

TEST(Process, ReportsASignal) {
  EXPECT_EQ(shell("kill -9 $$").exit_code, 128 + 9);
}

void expect_stopped(const std::string& script, Milliseconds at_most) {
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(Milliseconds(150));
    stop.request_stop();
  });
  const auto start = Clock::now();
  EXPECT_THROW(shell(script, stop.get_token()), Error);
  EXPECT_LT(Clock::now() - start, at_most);
}

TEST(Process, StopsTheChildByTerm) {
  expect_stopped("exec sleep 30", Milliseconds(1500));
}

TEST(Process, KillsAChildThatDoesNotReactToTerm) {
  expect_stopped("trap '' TERM; while :; do sleep 0.1; done", Milliseconds(6000));
}

}  // namespace
}  // namespace pgbaton::copy
