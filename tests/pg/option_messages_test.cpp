// Errors in options and configuration, without a server.
#include "pg/messages.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

struct OptionRow {
  Arguments arguments;
  std::vector<std::string> says;
};

std::string config_file(const std::string& text) {
  const auto path = make_run_directory("config") + "/pgbaton.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(Messages, OptionsAndConfiguration) {
  const std::string secret = std::string("host=h password=") + kPassword;
  const std::vector<OptionRow> rows = {
      {{}, {"command"}},
      {{"clown"}, {"clown", "Did you mean clone?"}},
      {{"clone", secret}, {"--source"}},
      {{"clone", "--sauce", secret}, {"--sauce"}},
      {{"clone", "--sorce=" + secret}, {"--sorce", "Did you mean --source?"}},
      {{"clone", "--source"}, {"ERROR: --source: a value is missing", "HINT: Write --source CONNINFO."}},
      {{"clone", "--jobs"}, {"ERROR: --jobs: a value is missing", "HINT: Write --jobs N."}},
      {{"clone"}, {"source", "PGBATON_SOURCE"}},
      {{"clone", "--source", secret}, {"target", "PGBATON_TARGET"}},
      {{"clone", "--source", secret + " passwort=" + kPassword, "--target", "d"}, {"source"}},
      {{"clone", "--source", "postgresql://u:" + std::string(kPassword) + "@[::1/d", "--target", "d"}, {"source"}},
      {{"clone", "--jobs", "0"}, {"--jobs", "256"}},
      {{"clone", "--jobs", "many"}, {"--jobs", "many"}},
      {{"clone", "--jobs", "2", "--jobs", "3"}, {"--jobs", "2 times"}},
      {{"clone", "--memory", "3 apples"}, {"--memory", "3 apples"}},
      {{"clone", "--memory", "1kB"}, {"--memory", "1kB"}},
      {{"clone", "--slot-wait", "soon"}, {"--slot-wait", "soon"}},
      {{"clone", "--until", "tomorrow"}, {"--until", "tomorrow", "caught-up"}},
      {{"clone", "--follow", "--until", "caught-up"}, {"--follow", "--until"}},
      {{"clone", "--dry-run", "--restart"}, {"--dry-run", "--restart"}},
      {{"clone", "--tombstone-retention", "3 apples"}, {"--tombstone-retention", "3 apples"}},
      {{"clone", "--guard", "dog"}, {"--guard", "dog"}},
      {{"clone", "--appliers", "4"}, {"--appliers 4"}},
      {{"clone", "--timeout", "3s"}, {"--timeout", "wait"}},
      {{"clone", "--name", "Bad-Name"}, {"Bad-Name"}},
      {{"clone", "--log-level", "loud"}, {"--log-level", "loud"}},
      {{"clone", "--progress", "bar"}, {"--progress", "bar"}},
      {{"follow", "--until-lsn", "12"}, {"--until-lsn", "12"}},
      {{"follow", "--until-lsn", "0/12", "--until", "caught-up"}, {"--until-lsn"}},
      {{"sequences", "--gap", "-1"}, {"--gap"}},
      {{"wait", "--for", "godot"}, {"--for", "godot"}},
      {{"clone", "--config", "/nowhere/pgbaton.yaml"}, {"/nowhere/pgbaton.yaml"}},
      {{"clone", "--config", config_file("sauce: x\n")}, {"pgbaton.yaml:1", "sauce", "source"}},
      {{"clone", "--config", config_file("name: a\nname: b\n")}, {"pgbaton.yaml:2", "name"}},
      {{"clone", "--config", config_file("jobs: [1, 2]\n")}, {"pgbaton.yaml:1", "jobs"}},
      {{"clone", "--config", config_file("jobs: many\n")}, {"pgbaton.yaml:1", "jobs", "many"}},
      {{"clone", "--config", config_file("- a\n")}, {"pgbaton.yaml:1"}},
      {{"clone", "--config", config_file("jobs: 1\n  bad: [\n")}, {"pgbaton.yaml:"}},
      {{"clone", "--config", config_file("jobs: 2\nsource: host=h passwort=x\ntarget: d\n")},
       {"pgbaton.yaml:2", "source"}},
      {{"clone", "--config", config_file("\nname: Bad\n")}, {"pgbaton.yaml:2", "\"Bad\""}},
      {{"clone", "--config", config_file("appliers: 2\n")}, {"pgbaton.yaml:1", "--appliers 2"}},
      {{"help", "clown"}, {"clown", "Did you mean clone?"}},
  };
  for (const auto& row : rows) {
    std::string line = "pgbaton";
    for (const auto& word : row.arguments) line += " " + word;
    SCOPED_TRACE(line);
    expect_message(Tool::run(row.arguments), 2, row.says);
  }
}

// The same as a document for scripts.
TEST(Messages, JsonHasTheHint) {
  const auto result =
      Tool::run({"follow", "--json", "--source", "port=1 host=127.0.0.1", "--target", "port=1 host=127.0.0.1"});
  EXPECT_EQ(result.code, 1) << result;
  const auto error = nlohmann::json::parse(result.out).at("error");
  EXPECT_EQ(error.at("exit_code"), 1);
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("port 1"));
  EXPECT_GT(error.at("hint").get<std::string>().size(), 10u);
}

}  // namespace
}  // namespace pgbaton::testing
