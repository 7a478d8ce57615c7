#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>

#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "../../../src/app/cmd_switchover.hpp"

namespace pgbaton::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

Invocation parse(const Words& words, const std::map<std::string, std::string>& variables = {}) {
  return parse_invocation(words, [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// What the user would see of a refused command line: "message | hint". Every refusal is a usage error.
std::string refusal(const Words& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_FALSE(error.hint().empty()) << error.message();
    return error.describe() + " | " + error.hint();
  }
  return "accepted";
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("pgbaton-options-" + std::to_string(getpid()) + "-" + std::to_string(++number_) + ".yaml")) {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  static inline int number_ = 0;
  std::filesystem::path path_;
};

TEST(Options, MeanTheSameBeforeAndAfterTheCommand) {
  for (const Words& words : {Words{"--jobs", "7", "--source=a", "clone", "--target", "b"},
                             Words{"clone", "--jobs=7", "--source", "a", "--target=b"},
                             Words{"--jobs", "7", "--source", "a", "--target", "b", "clone"}}) {
    auto options = parse(words).options;
    EXPECT_EQ(options.command, "clone");
    EXPECT_EQ(options.jobs, 7);
    EXPECT_EQ(options.source, "a");
    EXPECT_EQ(options.target, "b");
  }
}

TEST(Options, FlagsWinOverEnvironmentAndEnvironmentOverFile) {
  ConfigFile file("source: from file\ntarget: from file\njobs: 3\nindex_jobs: 5\n");
  auto options = parse({"clone", "--config", file.path(), "--source", "from flag", "--jobs", "9"},
                       {{"PGBATON_SOURCE", "from environment"}, {"PGBATON_TARGET", "from environment"}})
                     .options;
  EXPECT_EQ(options.source, "from flag");
  EXPECT_EQ(options.target, "from environment");
  EXPECT_EQ(options.jobs, 9);
  EXPECT_EQ(options.index_jobs, 5);
}

TEST(Options, EmptyEnvironmentVariableIsNone) {
  ConfigFile file("source: from file\n");
  EXPECT_EQ(parse({"status", "--config", file.path()}, {{"PGBATON_SOURCE", ""}}).options.source, "from file");
}

TEST(Options, RepeatableOnesCollectAndFlagsReplaceTheFilesList) {
  ConfigFile file("include-table: [a, b]\nexclude-schema: one\n");
  auto options = parse({"clone", "--config", file.path(), "--include-table", "x", "--include-table=y,z"}).options;
  EXPECT_THAT(options.filter.include_tables, ElementsAre("x", "y,z"));
  EXPECT_THAT(options.filter.exclude_schemas, ElementsAre("one"));
}

TEST(Options, DurationsAndSizes) {
  auto options = parse({"clone", "--slot-wait", "1500ms", "--give-up-after", "2h", "--max-rate", "10MB"}).options;
  EXPECT_EQ(options.slot_wait, Milliseconds(1500));
  EXPECT_EQ(options.give_up_after, Milliseconds(7'200'000));
  EXPECT_EQ(options.max_rate, 10u << 20);
  EXPECT_EQ(parse({"wait", "--timeout", "3"}).options.timeout, Milliseconds(3000));
}

TEST(Options, RefusalsNameWhatIsWrongAndHint) {
  EXPECT_THAT(refusal({}), HasSubstr("a command is missing"));
  EXPECT_THAT(refusal({"clnoe"}), HasSubstr("there is no command \"clnoe\" | Did you mean clone?"));
  EXPECT_THAT(refusal({"clone", "--jobz", "3"}), HasSubstr("there is no option --jobz | Did you mean --jobs?"));
  EXPECT_THAT(refusal({"clone", "--nope", "3"}), HasSubstr("there is no option --nope | pgbaton --help lists"));
  EXPECT_THAT(refusal({"drop", "--name", ""}), HasSubstr("--name: the value is empty | Is a variable not set? "));
  EXPECT_THAT(refusal({"verify", "--include-table="}), HasSubstr("--include-table"));
  EXPECT_THAT(refusal({"clone", "--source", " "}), HasSubstr("--source: the value is empty"));
  ConfigFile colon("name: shop\njobs\n"), none("jobs:\nname: shop\n"), empty("name: ''\n");
  EXPECT_THAT(refusal({"clone", "--config", colon.path()}), HasSubstr(":2: a colon is missing behind the name"));
  EXPECT_EQ(parse({"clone", "--config", none.path()}).options.name, "shop");
  EXPECT_THAT(refusal({"clone", "--config", empty.path()}), HasSubstr("name: the value is empty"));
  EXPECT_THAT(refusal({"clone", "--jobs", "many"}), HasSubstr("--jobs: \"many\" is not a whole number"));
  EXPECT_THAT(refusal({"clone", "--jobs", "0"}), HasSubstr("--jobs: 0 is not between 1 and 256"));
  EXPECT_THAT(refusal({"clone", "--jobs", "2", "--jobs", "3"}), HasSubstr("--jobs was given 2 times"));
  EXPECT_THAT(refusal({"clone", "--jobs"}), HasSubstr("--jobs"));
  EXPECT_THAT(refusal({"clone", "--schema", "some"}), HasSubstr("--schema: \"some\" is not one of: full, none"));
  EXPECT_THAT(refusal({"clone", "--slot-wait", "soon"}), HasSubstr("--slot-wait"));
  EXPECT_THAT(refusal({"clone", "--memory", "12"}), HasSubstr("--memory: 12 is less than"));
  EXPECT_EQ(parse({"follow"}).options.ready_lag, 16u << 20);
  EXPECT_EQ(parse({"follow", "--ready-lag", "1MB"}).options.ready_lag, 1u << 20);
  EXPECT_THAT(refusal({"clone", "--name", "A-B"}), HasSubstr("A-B"));
  EXPECT_THAT(refusal({"status", "--log-level", "loud"}), HasSubstr("--log-level"));
  EXPECT_THAT(refusal({"clone", "--follow", "--until", "caught-up"}), HasSubstr("contradict"));
  EXPECT_THAT(refusal({"follow", "--until-lsn", "twelve"}), HasSubstr("--until-lsn"));
  EXPECT_THAT(refusal({"status", "--follow"}), HasSubstr("--follow has no meaning for status | It belongs to: clone."));
  EXPECT_THAT(refusal({"clone", "status"}), HasSubstr("unexpected argument: status"));
  EXPECT_THAT(refusal({"sequences", "--gap", "-5"}), HasSubstr("--gap: -5 is not between 0"));
}

TEST(Options, WhatALaterVersionBringsIsRefusedNotIgnored) {
  EXPECT_EQ(refusal({"switchover", "--mode", "read-only", "--rollback"}), "accepted");
  EXPECT_THAT(refusal({"switchover", "--mode", "follow"}), HasSubstr("is one of rebuild"));
  EXPECT_THAT(refusal({"switchover", "--mode", "once"}), HasSubstr("is one of rebuild"));
  EXPECT_THAT(refusal({"rebuild", "--mode", "full"}), HasSubstr("is one of switchover"));
  EXPECT_THAT(refusal({"switchover", "--undo", "--dry-run"}), HasSubstr("--undo stands alone"));
  EXPECT_EQ(refusal({"resync", "public.t", "\"U\".*", "--jobs", "2", "third"}), "accepted");
  EXPECT_EQ(refusal({"resync", "public.t", "--where", "id > 3"}), "accepted");
  EXPECT_EQ(refusal({"resync", "public.t", "--add"}), "accepted");
  EXPECT_THAT(refusal({"resync", "t", "--add", "--where", "id > 3"}), HasSubstr("--add and --where contradict"));
  EXPECT_THAT(refusal({"clone", "--appliers", "4"}), HasSubstr("--appliers 4: not in this version yet"));
  EXPECT_EQ(refusal({"clone", "--appliers", "1"}), "accepted");
  EXPECT_EQ(refusal({"verify", "--repair", "--sample", "10", "--where", "id > 3"}), "accepted");
  EXPECT_THAT(refusal({"verify", "--sample", "0"}), HasSubstr("--sample: 0 is not between 1"));
  EXPECT_THAT(refusal({"clone", "--repair"}), HasSubstr("It belongs to: verify."));
}

TEST(Options, RetentionOfTombstones) {
  const auto parsed = [](const std::string& text) {
    Options options;
    options.tombstone_retention = text;
    return retention_options(options);
  };
  EXPECT_EQ(parsed("64MB").bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(parsed("2h").time, Milliseconds(7'200'000));
  EXPECT_FALSE(parsed("auto").bytes || parsed("auto").time || parsed("").bytes || parsed("").time);
  EXPECT_THAT(refusal({"follow", "--tombstone-retention", "a while"}), HasSubstr("a while"));
  EXPECT_THAT(refusal({"follow", "--tombstones", "never"}), HasSubstr("--tombstones"));
}

TEST(Options, PasswordsAreInNoMessage) {
  for (const Words& words :
       {Words{"clone", "postgres://u:topsecret@h/db"}, Words{"postgres://u:topsecret@h/db", "clone"},
        Words{"clone", "--sorce", "host=h password=topsecret"}, Words{"clone", "--sorce=host=h password=topsecret"},
        Words{"--source", "password=topsecret", "--source", "password=topsecret", "clone"},
        Words{"--source", "password=topsecret"}, Words{"clone", "password=topsecret"}})
    EXPECT_THAT(refusal(words), AllOf(Not(HasSubstr("topsecret")), Not("accepted")));
}

TEST(ConfigFile, ErrorsNameFileAndLine) {
  auto message = [](const std::string& text) {
    ConfigFile file(text);
    std::string shown = refusal({"clone", "--config", file.path()});
    if (auto at = shown.find(file.path()); at != std::string::npos) shown.replace(at, file.path().size(), "F");
    return shown;
  };
  EXPECT_THAT(message("# x\nsource: a\nslot_wiat: 3s\n"),
              HasSubstr("F:3: there is no option \"slot_wiat\" | Did you mean slot-wait?"));
  EXPECT_THAT(message("jobs: 3\njobs: 4\n"), HasSubstr("F:2: jobs stands here for the second time"));
  EXPECT_THAT(message("jobs: 3\n---\njobs: 4\n"), HasSubstr("F:3: a second document begins"));
  EXPECT_THAT(message("tables: &x [*x]\n"), HasSubstr("nested too deeply"));
  EXPECT_THAT(message("tables:\n  - {name: a.b,\n     where: x, where: y}\n"),
              HasSubstr("F:3: where stands here for the second time"));
  EXPECT_THAT(message("switchover:\n  gap: 1\nname: a\nswitchover:\n  gap: 2\n"),
              HasSubstr("F:4: switchover stands here for the second time"));
  EXPECT_THAT(message("jobs: [1, 2]\n"), HasSubstr("F:1: jobs takes one value"));
  EXPECT_THAT(message("\n\njobs: many\n"), HasSubstr("F:3: jobs: \"many\" is not a whole number"));
  EXPECT_THAT(message("follow: perhaps\n"), HasSubstr("neither true nor false"));
  EXPECT_THAT(message("- a\n- b\n"), HasSubstr("F:1: a map of options is expected"));
  EXPECT_THAT(message("jobs: 2\nsource: [a\n"), HasSubstr("F:"));
  EXPECT_THAT(message("jobs: 2\nname: Bad\n"), HasSubstr("F:2: \"Bad\" is not a replica name"));
  EXPECT_THAT(message("\nappliers: 4\n"), HasSubstr("F:2: --appliers 4: not in this version yet"));
  EXPECT_THAT(message("until: caught-up\nfollow: true\n"), HasSubstr("F:2: --follow and --until contradict"));
  EXPECT_THAT(message("config: other.yaml\n"), HasSubstr("there is no option \"config\""));
  EXPECT_EQ(message(""), "accepted");
  EXPECT_THAT(refusal({"clone", "--config", "/nonexistent/x.yaml"}), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal({"clone", "--config", "/tmp"}), HasSubstr("cannot be read"));
}

TEST(ConfigFile, WhatAFlagOverridesHasNoLine) {
  ConfigFile file("source: a\njobs: 3\nguard: ledger\nname: Bad\n");
  auto options = parse({"clone", "--config", file.path(), "--jobs", "4", "--guard", "none", "--name", "good"},
                       {{"PGBATON_SOURCE", "b"}})
                     .options;
  EXPECT_THAT(options.file_lines, testing::IsEmpty());
  EXPECT_THAT(refusal({"clone", "--config", file.path(), "--guard", "none", "--name", "Worse"}),
              Not(HasSubstr(file.path())));
}

TEST(ConfigFile, PasswordsAreInNoMessage) {
  ConfigFile file("source:\n  host: h\n  password: topsecret\n");
  EXPECT_THAT(refusal({"clone", "--config", file.path()}), Not(HasSubstr("topsecret")));
}

std::string example_path() {
  return std::string(PGBATON_TEST_DATA) + "/../../scripts/pgbaton.example.yaml";
}

TEST(ConfigFile, ExampleParsesAndExplainsEveryOption) {
  auto options = parse({"clone", "--config", example_path()}).options;
  EXPECT_EQ(options.name, "shop");
  EXPECT_THAT(options.filter.exclude_tables, testing::IsEmpty()) << "a name that matches nothing is an error";
  std::ifstream file(example_path());
  std::stringstream text;
  text << file.rdbuf();
  for (const OptionSpec& spec : option_table()) {
    if (spec.name == "config") continue;
    EXPECT_TRUE(text.str().find("\n" + std::string(spec.name) + ":") != std::string::npos ||
                text.str().find("\n# " + std::string(spec.name) + ":") != std::string::npos)
        << spec.name;
  }
}

TEST(ConfigFile, SectionSwitchover) {
  ConfigFile file(
      "switchover:\n  transaction-wait: 3s\n  verify_limit: 50ms\n  verify: full\n  prewarm: [a, b]\n  gap: 7\n");
  EXPECT_EQ(parse({"switchover", "--config", file.path()}).options.gap, 0) << "that of `sequences`";
  const auto settings = load_switchover_section(file.path());
  EXPECT_EQ(settings.transaction_wait, Milliseconds(3000));
  EXPECT_EQ(settings.verify_limit, Milliseconds(50));
  EXPECT_EQ(settings.verification, "full");
  EXPECT_EQ(settings.sequence_gap, 7);
  EXPECT_THAT(settings.prewarm, ElementsAre("a", "b"));
  const auto message = [](const std::string& text) {
    ConfigFile wrong(text);
    return refusal({"clone", "--config", wrong.path()});
  };
  EXPECT_THAT(message("switchover:\n  veryfi: off\n"), AllOf(HasSubstr(":2: "), HasSubstr("Did you mean verify?")));
  EXPECT_THAT(message("switchover:\n  verify: some\n"), HasSubstr("not one of: off|counts|full"));
  EXPECT_THAT(message("switchover:\n  gap: 1\n  gap: 2\n"), HasSubstr("second time"));
  EXPECT_THAT(message("switchover:\n  hooks:\n    flip: a\n"), AllOf(HasSubstr(":3: "), HasSubstr("given-up")));
  EXPECT_THAT(message("switchover:\n  hooks:\n    send: a\n    send: b\n"), HasSubstr("second time"));
  EXPECT_THAT(message("switchover:\n  hooks: a\n"), HasSubstr("hooks takes a map"));
  EXPECT_EQ(message("switchover:\n  hooks:\n    send: a\n    clean-up: b\n"), "accepted");
  EXPECT_THAT(message("switchover: 3\n"), HasSubstr("takes a map of settings"));
  EXPECT_EQ(parse({"switchover", "--undo"}).options.mode, "undo");
}

TEST(ConfigFile, ExampleExplainsEverySettingOfSwitchover) {
  std::ifstream file(example_path());
  std::stringstream text;
  text << file.rdbuf();
  for (const auto& spec : switchover_settings()) {
    EXPECT_TRUE(text.str().find("\n  " + std::string(spec.name) + ":") != std::string::npos ||
                text.str().find("\n  # " + std::string(spec.name) + ":") != std::string::npos)
        << spec.name;
  }
}

TEST(Help, ListsEveryCommandAndOption) {
  std::string text = help_text();
  for (const char* command : {"check", "clone", "follow", "status", "wait", "verify", "resync", "rebuild", "sequences",
                              "switchover", "finish", "drop"})
    EXPECT_THAT(text, HasSubstr("\n  " + std::string(command) + " ")) << command;
  for (const OptionSpec& spec : option_table()) EXPECT_THAT(text, HasSubstr("--" + std::string(spec.name)));
  EXPECT_THAT(text, HasSubstr("Examples:"));
}

TEST(Help, OfACommandHasItsOptionsAndExamples) {
  EXPECT_TRUE(parse({"clone", "--help"}).help);
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_TRUE(parse({"--version"}).version);
  EXPECT_TRUE(parse({"help"}).help);
  EXPECT_TRUE(parse({"help", "wait"}).help);
  EXPECT_EQ(parse({"help", "wait"}).options.command, "wait");
  EXPECT_THAT(refusal({"help", "wiat"}), HasSubstr("there is no command \"wiat\" | Did you mean wait?"));
  for (const char* command : {"check", "clone", "follow", "status", "wait", "sequences", "finish", "drop"})
    EXPECT_THAT(help_text(command), AllOf(HasSubstr("Examples:\n  pgbaton "), HasSubstr("Exit codes:"))) << command;
  std::string text = help_text("wait");
  EXPECT_THAT(text,
              AllOf(HasSubstr("--timeout"), HasSubstr("--for"), HasSubstr("Examples:"), Not(HasSubstr("--jobs"))));
  EXPECT_THAT(help_text("switchover"), AllOf(HasSubstr("Section `switchover:`"), HasSubstr("\n  catch-up-timeout:")));
  std::string all = help_text();
  for (const char* command : {"check", "clone", "follow", "wait", "verify", "resync", "rebuild", "finish", "drop"})
    all += help_text(command);
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  pgbaton ")) continue;  // an example is as long as it is
    EXPECT_LE(line.size(), 84u) << line;           // bytes
  }
}

TEST(Closest, OnlyWhenNearEnough) {
  EXPECT_EQ(closest("statsu", {"status", "wait"}), "status");
  EXPECT_EQ(closest("xyzzy", {"status", "wait"}), "");
}

}  // namespace
}  // namespace pgbaton::app
