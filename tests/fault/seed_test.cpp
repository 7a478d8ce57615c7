// The seed benchmark: upserts and deletes on uniformly drawn keys, bootstrap in the middle of it, kill -9 once during
// the copy and once while streaming, and at the end no row differs. PGBATON_SEED_SECONDS=100 is the full length.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::IsEmpty;

constexpr const char* kScript = R"(\set id random(1, 10000)
\set what random(1, 10)
\if :what <= 7
insert into hello values (:id, 'hello ' || :id || ' at ' || clock_timestamp()) on conflict (id) do update set greeting = excluded.greeting;
\else
delete from hello where id = :id;
\endif
)";

class SeedTest : public PairTest {
 protected:
  void SetUp() override {
    const char* given = std::getenv("PGBATON_SEED_SECONDS");
    if (given != nullptr) seconds_ = std::atoi(given);
    PairTest::SetUp();
    source().exec("create table hello (id int primary key, greeting text)");
    Pgbench::initialize(source().conninfo(), 10);
    create_filled("filler", 100'000);
  }
  int seconds_ = 20;
};

TEST_F(SeedTest, SeedBenchmarkSurvivesBothKills) {
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = std::to_string(seconds_);
  Pgbench hello(source().conninfo(), {"-c", "4", "-T", seconds}, kScript);
  Pgbench standard(source().conninfo(), {"-c", "2", "-R", "200", "-T", seconds});
  std::this_thread::sleep_for(Milliseconds(seconds_ * 100));

  auto clone = start("clone", {"--follow", "--max-rate", "20MB"});
  ASSERT_TRUE(wait_copying("pgbench_accounts", 1'000) || wait_copying("filler", 1'000)) << clone.err();
  clone.kill_hard();

  auto again = start("clone", {"--follow"});
  ASSERT_TRUE(wait_for("copied", "90s")) << again.err();
  std::this_thread::sleep_for(Milliseconds(seconds_ * 100));
  ASSERT_TRUE(again.running()) << again.wait();
  again.kill_hard();

  auto follower = start("clone", {"--follow"});
  hello.wait();
  standard.wait();
  ASSERT_GE(std::chrono::steady_clock::now() - began, std::chrono::seconds(seconds_));
  EXPECT_TRUE(wait_for("caught-up", "30s")) << follower.err();  // within 30 s of the writers' end
  EXPECT_TRUE(wait_for("ready", "1s")) << follower.err();
  expect_equal();
  // The same said by the servers: set difference in both directions.
  const std::string rows = "select md5(string_agg(h::text, '|' order by id)) from (select id, greeting from hello) h";
  EXPECT_EQ(source().scalar(rows), target().scalar(rows));
  stop_follower(follower);
  const auto finished = run("finish");
  EXPECT_EQ(finished.code, 0) << finished;
  expect_equal();
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::testing
