// A first hand-over as a person meets it: the example file as it stands, what each command says of a replica that has a
// name, and what it says when the name is forgotten.
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class NewcomerTest : public PairTest {
 protected:
  // The example with its two connection strings changed, and `more` behind it.
  std::string example(const std::string& more = "") {
    auto text = read_test_data("../../scripts/pgbaton.example.yaml");
    text = std::regex_replace(text, std::regex("\nsource: [^\n]*"), "\nsource: " + source().conninfo());
    text = std::regex_replace(text, std::regex("\ntarget: [^\n]*"), "\ntarget: " + target().conninfo());
    const auto path = source().directory() + "/shop" + std::to_string(++files_) + ".yaml";
    std::ofstream(path) << text << more;
    return path;
  }
  static ToolResult with(const std::string& file, const std::string& command, const Arguments& more = {}) {
    Arguments all{command, "--config", file};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all, Milliseconds(60'000));
  }
  static ::testing::AssertionResult appears(const std::string& path, const std::string& text) {
    for (int i = 0; i < 300; ++i) {
      if (read_file(path).find(text) != std::string::npos) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(Milliseconds(100));
    }
    return ::testing::AssertionFailure() << text << " is not in " << read_file(path);
  }
  void expect_while_it_streams(const std::string& file);
  void expect_when_nobody_streams(const std::string& file);
  void expect_of_positions(const std::string& file);
  void expect_without_the_name();
  void expect_of_the_end(const std::string& file);
  int files_ = 0;
};

void NewcomerTest::expect_while_it_streams(const std::string& file) {
  const auto status = with(file, "status");
  EXPECT_THAT(status.out, AllOf(HasSubstr("phase       ready: "), HasSubstr("copied rows"), HasSubstr("lag  "),
                                ::testing::ContainsRegex("writer      host .*, pid .*, since 20..-..-.. ..:..:.. UTC")))
      << status;
  const auto check = with(file, "check", {"--json"});
  EXPECT_EQ(check.code, 0) << check;
  const auto document = nlohmann::json::parse(check.out);
  std::string finding;
  for (const auto& one : document.at("findings"))
    if (one.at("id") == "target.replica") finding = one.dump();
  EXPECT_THAT(finding, AllOf(HasSubstr("phase ready"), HasSubstr("its writer runs on"), HasSubstr("note"))) << check;
}

void NewcomerTest::expect_when_nobody_streams(const std::string& file) {
  const auto plan = with(file, "clone", {"--dry-run"});
  EXPECT_EQ(plan.code, 0) << plan;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("nothing to copy"), HasSubstr("copied already"))) << plan;
  source().exec("insert into t values (3)");
  const auto waited = with(file, "wait", {"--for", "caught-up", "--timeout", "1s"});
  EXPECT_EQ(waited.code, 5) << waited;
  EXPECT_THAT(waited.err,
              HasSubstr("no writer runs for replica shop (phase ready): `pgbaton follow` would go on; wait"));
  const auto never = with(file, "follow", {"--until-lsn", "FF/0", "--give-up-after", "1s"});
  EXPECT_EQ(never.code, 5) << never;
  EXPECT_THAT(never.err, AllOf(HasSubstr("nothing has moved for 1.0 s while waiting for FF/0"), HasSubstr("HINT: ")));
  EXPECT_EQ(target().number("select count(*) from t"), 3) << "what came before the standstill is applied";
  expect_of_positions(file);
  // A source that is away is waited for, also when nothing has been streamed yet.
  const auto away =
      with(file, "follow",
           {"--source", "host=127.0.0.1 port=1 dbname=shop", "--until", "caught-up", "--give-up-after", "1s"});
  EXPECT_EQ(away.code, 5) << away;
  EXPECT_THAT(away.err, AllOf(::testing::ContainsRegex("the source has not answered since ..:..:.. UTC .*refused"),
                              HasSubstr("trying again in"), ::testing::ContainsRegex("ERROR: .*has not answered for 1"),
                              HasSubstr("HINT: Nothing is lost")));
}

// "exactly the transactions with end LSN <= L": not what the target has left behind already.
void NewcomerTest::expect_of_positions(const std::string& file) {
  const auto applied = [&] {
    return nlohmann::json::parse(with(file, "status", {"--json"}).out).at("lsn").at("applied").get<std::string>();
  };
  const auto at = applied();
  const auto passed = with(file, "follow", {"--until-lsn", "0/100"});
  EXPECT_EQ(passed.code, 2) << passed;
  EXPECT_THAT(passed.err, AllOf(HasSubstr("--until-lsn 0/100: this position has passed"), HasSubstr(at + " already"),
                                HasSubstr("HINT: "), Not(HasSubstr("reached"))));
  for (int i = 0; i < 2; ++i) {
    const auto equal = with(file, "follow", {"--until-lsn", at});
    EXPECT_EQ(equal.code, 0) << equal;
    EXPECT_EQ(applied(), at);
  }
  source().exec("insert into t values (4)");
  const auto lsn = source().scalar("select pg_current_wal_flush_lsn()");
  source().exec("insert into t values (5)");
  for (int i = 0; i < 2; ++i) {
    const auto exactly = with(file, "follow", {"--until-lsn", lsn});
    EXPECT_EQ(exactly.code, 0) << "a script may say it twice" << exactly;
    EXPECT_EQ(target().number("select max(id) from t"), 4);
  }
}

void NewcomerTest::expect_without_the_name() {
  const auto status = run("status", {"--json"});
  EXPECT_EQ(status.code, 0) << status;
  EXPECT_EQ(nlohmann::json::parse(status.out).at("name"), "shop");
  EXPECT_THAT(status.err, HasSubstr("showing shop, the only one on this target"));
  for (const auto* command : {"follow", "finish", "drop"}) {
    const auto result = run(command);
    EXPECT_EQ(result.code, 2) << command << result;
    EXPECT_THAT(result.err, HasSubstr("no replica named default on this target; it knows: shop (use --name shop)"));
  }
  const auto waited = run("wait", {"--timeout", "500ms"});
  EXPECT_EQ(waited.code, 5) << waited;
  EXPECT_THAT(waited.err, HasSubstr("it knows: shop (use --name shop)"));
  const auto other = run("finish", {"--name", "other"});
  EXPECT_EQ(other.code, 2) << other;
  EXPECT_THAT(other.err, HasSubstr("no replica named other on this target; it knows: shop"));
  EXPECT_EQ(run("drop", {"--name", "other"}).code, 0) << "whoever names one means it";
  EXPECT_EQ(target().scalar("select name from pgbaton.replica"), "shop");
}

void NewcomerTest::expect_of_the_end(const std::string& file) {
  const auto finish = with(file, "finish");
  EXPECT_EQ(finish.code, 0) << finish;
  EXPECT_THAT(finish.out, ::testing::ContainsRegex("complete up to [0-9A-F]+/[0-9A-F]+: the target has everything"));
  EXPECT_EQ(run("finish").code, 0) << "nothing is left that could be meant";
  const auto missing = with(example("exclude-table: nowhere\n"), "check");
  EXPECT_EQ(missing.code, 2) << missing;
  EXPECT_THAT(missing.err,
              ::testing::ContainsRegex("shop2.yaml:[0-9]+: --exclude-table: \"nowhere\" matches no table"));
}

TEST_F(NewcomerTest, TheExampleFileFromCloneToFinish) {
  source().exec("create table t (id int primary key); insert into t values (1)");
  const auto file = example();
  const auto events = source().directory() + "/events.jsonl";
  Tool clone({"clone", "--config", file, "--follow", "--events", events});
  ASSERT_TRUE(clone.wait_for_stderr("the copy is complete: 1 table, 1 row")) << clone.err();
  source().exec("insert into t values (2)");
  EXPECT_EQ(with(file, "wait", {"--for", "ready"}).code, 0) << clone.err();
  EXPECT_TRUE(appears(events, "\"event\":\"ready\"")) << "while the clone still runs";
  expect_while_it_streams(file);
  stop_follower(clone);
  expect_when_nobody_streams(file);
  expect_without_the_name();
  expect_of_the_end(file);
}

}  // namespace
}  // namespace pgbaton::testing
