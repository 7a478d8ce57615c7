// The live display in a real pseudo-terminal: bars, the stream's line, a window that changes its size, the log above.
#include "support/pair.hpp"
#include "support/terminal.hpp"

#include <signal.h>

#include <regex>

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ProgressDisplayTest : public PairTest {
 protected:
  Tool start_on(const Terminal& terminal, const std::string& command, const Arguments& more) {
    return Tool(arguments(command, more), Terminal::environment(), terminal.device());
  }
  // Several tables for the list of those in flight; one has a name in wide characters.
  void create_tables() {
    create_filled("orders", 40'000);
    create_filled("order_items", 30'000);
    create_filled("\"顧客の一覧\"", 20'000);
    create_filled("small", 100);
    source().exec("analyze");
  }
  // A window of another size, and what a shell tells the process about it.
  static void resize(Terminal& terminal, Tool& tool, int columns, int rows) {
    terminal.resize(columns, rows);
    tool.kill(SIGWINCH);
  }
};

// Only the log is left: each line whole, none of the display among them.
void expect_only_log(const Terminal& terminal) {
  const std::regex log_line(R"(^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{12} (DEBUG|INFO |WARN |ERROR) .*$|^        .*$|^$)");
  int count = 0;
  for (const auto& line : terminal.lines()) {
    EXPECT_TRUE(std::regex_match(line, log_line)) << "left over: " << line;
    count += line.empty() ? 0 : 1;
  }
  EXPECT_GE(count, 2);
  EXPECT_EQ(terminal.unknown(), "");
}

// What is drawn from now on is not wider than the window, and no row of it was wrapped.
void expect_block_fits(Terminal& terminal) {
  terminal.was_cut();
  std::this_thread::sleep_for(Milliseconds(700));
  EXPECT_FALSE(terminal.was_cut()) << terminal.screen();
  for (const auto& line : terminal.lines()) EXPECT_LE(std::count(line.begin(), line.end(), '%'), 1) << line;
}

TEST_F(ProgressDisplayTest, BarsOfACloneAt80Columns) {
  create_tables();
  Terminal terminal(80, 24);
  auto clone = start_on(terminal, "clone", {"--max-rate", "2MB", "--jobs", "2"});
  ASSERT_TRUE(terminal.wait_for("ETA ")) << terminal.screen();
  std::this_thread::sleep_for(Milliseconds(1500));
  const auto screen = terminal.screen();
  keep_capture("clone at 80 columns", screen);
  expect_block_fits(terminal);
  EXPECT_THAT(terminal.line_with("copy     "), HasSubstr("%"));
  EXPECT_THAT(terminal.line_with("indexes  "), HasSubstr("of 4 tables"));
  EXPECT_THAT(screen, HasSubstr("rows/s"));
  EXPECT_THAT(screen, HasSubstr(R"("public"."orders")"));
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 0) << result;
  for (const auto* part : {"phase ", "schema ", "copy ", " rows/s", "indexes, constraints "})
    EXPECT_THAT(result.out, HasSubstr(part));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  keep_capture("after a clone", terminal.screen() + result.out);
  expect_only_log(terminal);
}

TEST_F(ProgressDisplayTest, BarsOfACloneAt200ColumnsAndAfterResizes) {
  create_tables();
  Terminal terminal(200, 30);
  auto clone = start_on(terminal, "clone", {"--max-rate", "1MB", "--jobs", "4", "--log-level", "debug"});
  ASSERT_TRUE(terminal.wait_for("ETA ")) << terminal.screen();
  std::this_thread::sleep_for(Milliseconds(1000));
  keep_capture("clone at 200 columns", terminal.screen());
  expect_block_fits(terminal);
  EXPECT_THAT(terminal.line_with("copy     "), HasSubstr("rows/s")) << "one line holds everything";
  EXPECT_THAT(terminal.screen(), HasSubstr("顧客の一覧"));
  for (const auto& [columns, rows] : {std::pair(80, 24), {40, 10}, {100, 5}, {120, 30}}) {
    resize(terminal, clone, columns, rows);
    std::this_thread::sleep_for(Milliseconds(700));
    keep_capture("clone after a resize to " + std::to_string(columns) + " columns", terminal.screen());
    expect_block_fits(terminal);
    EXPECT_NE(terminal.line_with("copy     "), "") << terminal.screen();
    EXPECT_TRUE(clone.running());
  }
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 0) << result;
  expect_only_log(terminal);
}

TEST_F(ProgressDisplayTest, LineOfAStream) {
  source().exec("create table t (id bigserial primary key, v text)");
  create_marker();
  clone_until_caught_up();
  Load load(source().conninfo(), 2, "insert into t (v) select 'row ' || i from generate_series(1, 5) i");
  Terminal terminal(80, 24);
  auto follower = start_on(terminal, "follow", {});
  ASSERT_TRUE(terminal.wait_for("of WAL held")) << terminal.screen();
  ASSERT_TRUE(load.wait_done(load.done() + 200));
  std::this_thread::sleep_for(Milliseconds(1000));
  keep_capture("stream at 80 columns", terminal.screen());
  EXPECT_THAT(terminal.line_with("stream   "), HasSubstr("applied "));
  EXPECT_THAT(terminal.screen(), HasSubstr(" behind ("));
  resize(terminal, follower, 200, 30);
  const std::regex moving("[1-9][0-9,]* changes/s  [1-9][0-9,]* transactions/s");
  auto line = terminal.line_with("stream   ");
  for (int i = 0; i < 150 && !std::regex_search(line, moving); ++i) {
    std::this_thread::sleep_for(Milliseconds(100));
    line = terminal.line_with("stream   ");
  }
  keep_capture("stream at 200 columns", terminal.screen());
  EXPECT_TRUE(std::regex_search(line, moving)) << line;
  EXPECT_THAT(line, HasSubstr("of WAL held"));
  load.stop();
  follower.kill(SIGTERM);
  const auto result = follower.wait(Milliseconds(30'000));
  EXPECT_EQ(result.code, 0) << result;
  // The terminal reads what the tool wrote last on a thread of its own.
  for (int i = 0; i < 100 && !terminal.line_with("stream   ").empty(); ++i)
    std::this_thread::sleep_for(Milliseconds(50));
  EXPECT_EQ(terminal.line_with("stream   "), "");
  expect_only_log(terminal);
  expect_equal_after_drain();
}

TEST_F(ProgressDisplayTest, WithoutATerminalThereAreLinesOnly) {
  source().exec("create table t (id bigint primary key); insert into t values (1)");
  for (const auto* style : {"auto", "plain", "none"}) {
    const auto result = run("clone", {"--until", "caught-up", "--progress", style});
    EXPECT_EQ(result.code, 0) << result;
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("\x1b")));
  }
}

// What scripts rely on stays as it is on a terminal, too.
TEST_F(ProgressDisplayTest, QuietPlainAndNoneDrawNothing) {
  create_filled("t", 20'000);
  source().exec("analyze");
  for (const auto& flags : {Arguments{"--quiet"}, {"--progress", "none"}, {"--progress", "plain"}}) {
    Terminal terminal(80, 24);
    Arguments all{"--max-rate", "2MB", "--json"};
    all.insert(all.end(), flags.begin(), flags.end());
    const auto result = start_on(terminal, "clone", all).wait();
    EXPECT_EQ(result.code, 0) << result;
    EXPECT_TRUE(result.out.starts_with("{")) << result.out;
    const bool quiet = flags.front() == "--quiet";
    for (const auto& line : terminal.lines()) EXPECT_TRUE(!quiet || line.empty()) << line;
    EXPECT_THAT(terminal.screen(), Not(HasSubstr("░")));
    EXPECT_EQ(run("drop").code, 0);
    target().exec("drop table t");
  }
}

}  // namespace
}  // namespace pgbaton::testing
