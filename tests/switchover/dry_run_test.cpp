// switchover --dry-run: what it finds and measures, and that it fences nobody.
#include <nlohmann/json.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

class SwitchoverDryRun : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table account (id bigint generated always as identity primary key, n int not null);"
        "insert into account (n) select 0 from generate_series(1, 500)");
    clone_until_caught_up();
  }
  static Json parsed(const ToolResult& result) { return Json::parse(result.out, nullptr, false); }
  static std::string finding(const Json& report, const std::string& id) {
    for (const auto& one : report["findings"])
      if (one["id"] == id) return one["severity"];
    return "";
  }
  std::string triggers() {
    return source().scalar(
        "select count(*) || '/' || (select count(*) from pg_namespace where nspname like 'pgbaton%') "
        "from pg_trigger where not tgisinternal");
  }
};

TEST_F(SwitchoverDryRun, UnderLoadItMeasuresAndFencesNobody) {
  auto follower = start("follow");
  Load load(source().conninfo(), 2, "update account set n = n + 1 where id = 1 + (random() * 499)::int");
  ASSERT_TRUE(load.wait_done(20));
  for (const auto& beside : {"a follower", "nobody"}) {
    const auto result = run("switchover", {"--dry-run", "--json"});
    ASSERT_EQ(result.code, 0) << beside << result;
    const auto report = parsed(result);
    EXPECT_EQ(report["dry_run"], true);
    EXPECT_EQ(report["result"], "possible") << result;
    EXPECT_THAT(report["barrier_lsn"].get<std::string>(), HasSubstr("/"));
    EXPECT_GT(report["pause_ms"].get<int>(), 0);
    std::vector<std::string> names;
    for (const auto& step : report["steps"]) names.push_back(step["name"]);
    EXPECT_EQ(names, (std::vector<std::string>{"preflight", "fence", "catch-up", "sequences", "verify", "flip"}));
    if (follower.running()) stop_follower(follower);
  }
  EXPECT_GT(load.stop(), 20);
  EXPECT_THAT(load.errors(), IsEmpty()) << "no writer was refused or ended";
  EXPECT_EQ(triggers(), "0/0");
  EXPECT_EQ(run("switchover", {"--dry-run", "--mode", "read-only"}).code, 2);
}

TEST_F(SwitchoverDryRun, FindsWhatStandsInTheWay) {
  source().exec("create sequence small maxvalue 50; select nextval('small')");
  source().exec(
      "create subscription theirs connection 'host=127.0.0.1 port=1 dbname=none' publication p with (connect = false);"
      "alter subscription theirs enable; select lo_create(0); create materialized view summary as select 1 as n;"
      "create table later (id int primary key)");
  target().exec("create sequence small maxvalue 50; create view of_all as select * from account");
  target().exec("alter database postgres set default_transaction_read_only = yes");
  auto session = source().session();
  session.exec("begin; update account set n = 1 where id = 1");
  auto making = source().session();
  making.exec("begin; create table staging as select * from account");
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  const auto result = run("switchover", {"--dry-run", "--json"});
  EXPECT_EQ(result.code, 3) << result;
  const auto report = parsed(result);
  EXPECT_EQ(report["result"], "refused");
  EXPECT_EQ(finding(report, "target.guard"), "blocker") << result;
  EXPECT_EQ(finding(report, "source.sequences"), "blocker") << result;
  EXPECT_EQ(finding(report, "source.long_transaction"), "warning") << result;
  EXPECT_THAT(result.out, HasSubstr("holding a relation that it makes")) << result;
  EXPECT_EQ(finding(report, "source.subscription"), "blocker") << "no statement trigger stops it" << result;
  EXPECT_EQ(finding(report, "source.large_objects"), "blocker") << result;
  EXPECT_EQ(finding(report, "source.matview"), "warning") << result;
  EXPECT_EQ(finding(report, "table.left_behind"), "blocker") << result;
  EXPECT_EQ(finding(report, "target.read_only"), "blocker") << result;
  source().exec(
      "alter subscription theirs disable; alter subscription theirs set (slot_name = none); drop subscription theirs");
  session.exec("rollback");
}

}  // namespace
}  // namespace pgbaton::testing
