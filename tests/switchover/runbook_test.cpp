// README, Upgrade runbook: its commands, in their order, as they stand.
#include <regex>

#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

// Of a chapter of README, the indented lines that call pgbaton, without comments.
std::vector<std::string> commands_of(const std::string& chapter) {
  std::ifstream readme(PGBATON_TEST_RECIPES "/../../README.md");
  std::vector<std::string> commands;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("### ")) inside = line == "### " + chapter;
    if (inside && line.starts_with("    pgbaton "))
      commands.push_back(std::regex_replace(line, std::regex("^ +| *#.*$"), ""));
  }
  return commands;
}

Arguments words_of(const std::string& command) {
  std::istringstream in(command);
  Arguments words;
  for (std::string word; in >> word;) words.push_back(word);
  return {words.begin() + 1, words.end()};
}

class RunbookTest : public PairTest {};

TEST_F(RunbookTest, ReadmesCommandsInTheirOrder) {
  source().exec("create table account (id bigint primary key, n int not null)");
  clone_until_caught_up();
  const auto directory = make_run_directory("runbook");
  std::ofstream(directory + "/shop.yaml") << "source: " << source().conninfo() << "\ntarget: " << target().conninfo()
                                          << "\nswitchover:\n  gap: 1000\n  hook-readers: 'true'\n";
  const auto commands = commands_of("Upgrade runbook");
  EXPECT_EQ(commands,
            (std::vector<std::string>{"pgbaton switchover --config shop.yaml --dry-run",
                                      "pgbaton switchover --config shop.yaml --mode read-only",
                                      "pgbaton switchover --config shop.yaml", "pgbaton follow --config shop.yaml",
                                      "pgbaton switchover --config shop.yaml --rollback --dry-run",
                                      "pgbaton switchover --config shop.yaml --rollback"}));
  // The replica is followed, as the chapter begins.
  std::vector<Tool> followers;
  followers.push_back(Tool(Arguments{"follow", "--config", directory + "/shop.yaml"}));
  ASSERT_TRUE(wait_for("caught-up"));
  for (const auto& command : commands) {
    auto words = words_of(command);
    for (auto& word : words)
      if (word == "shop.yaml") word = directory + "/" + word;
    if (words.front() == "follow") {
      ASSERT_TRUE(wait_for("caught-up"));
      stop_follower(followers.back());
      followers.push_back(Tool(words));
      ASSERT_TRUE(wait_for("caught-up"));
      target().exec("insert into account values (1, 0)");
      continue;
    }
    const auto result = Tool::run(words);
    ASSERT_EQ(result.code, 0) << command << result;
  }
  expect_only(source(), target(), "the end of the chapter");
  EXPECT_EQ(source().number("select count(*) from account where id = 1"), 1);
  stop_follower(followers.back());
}

}  // namespace
}  // namespace pgbaton::testing
