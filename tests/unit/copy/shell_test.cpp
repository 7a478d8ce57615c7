#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/copy/process.hpp>
#include <pgbaton/copy/shell.hpp>

namespace pgbaton::copy {
namespace {

using ::testing::StartsWith;

// Each of them is run, too: what sh runs must not be refused.
TEST(ShellComplaint, SaysNothingOfWhatShRuns) {
  for (const auto* command : {
           "true",
           "  \n\ttrue\n",
           "/bin/true --word",
           "f () { true; }; f",
           "f ( ) { true; }; f",
           "f() { true; }; f",
           "notify () {\n  true\n}\nnotify\n",
           "2>/dev/null true",
           "2> /dev/null true",
           "0</dev/null cat",
           ">/dev/null echo x",
           "</dev/null cat",
           "true>/dev/null",
           "true 2>&1 | cat",
           "VAR=x true",
           "A=1 B=2 env >/dev/null",
           "(true)",
           "( true; true )",
           "{ true; }",
           "{\n  true\n}",
           "! false",
           "if true; then true; fi",
           "while false; do true; done",
           "until true; do false; done",
           "for i in 1 2; do echo $i; done >/dev/null",
           "case x in x) true ;; esac",
           "\"/bin/true\" x",
           "'true'",
           "tr\"ue\"",
           "$(echo true)",
           "P=true; $P",
           "# a comment\ntrue",
           ": nothing",
           "[ -d / ] && true",
           "set -e\ntrue",
           "true\\\n && true",
           "no_such_program || true",
           "/no/such/program 2>/dev/null || true",
           "exec true",
           ". /dev/null",
       }) {
    EXPECT_EQ(run_command({"/bin/sh", {"-c", command}, {}, 4096}, {}).exit_code, 0) << command;
    EXPECT_EQ(shell_complaint(command), "") << command;
  }
}

TEST(ShellComplaint, NamesWhatShWouldNotFindOrParse) {
  EXPECT_EQ(shell_complaint("no_such_program --now"), "sh finds no no_such_program");
  EXPECT_EQ(shell_complaint(" \n no_such_program>/dev/null"), "sh finds no no_such_program");
  EXPECT_EQ(shell_complaint("no_such_program && (true)"), "sh finds no no_such_program");
  EXPECT_EQ(shell_complaint("/no/such/program; true"), "/no/such/program is no executable file");
  EXPECT_EQ(shell_complaint("/etc/passwd"), "/etc/passwd is no executable file");
  EXPECT_THAT(shell_complaint("if true; then"), StartsWith("sh cannot parse it: "));
  EXPECT_THAT(shell_complaint("echo 'x"), StartsWith("sh cannot parse it: "));
}

}  // namespace
}  // namespace pgbaton::copy
