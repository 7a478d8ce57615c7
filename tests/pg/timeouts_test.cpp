// Time-outs that an administrator has put on the role and the database (S06): none of them may end a long copy, an idle
// holder of a snapshot, an index build or the stream.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

struct Majors {
  int source, target;
};

class TimeoutsTest : public PairTest, public ::testing::WithParamInterface<Majors> {
 protected:
  ClusterOptions source_options() const override { return {.major = GetParam().source}; }
  ClusterOptions target_options() const override { return {.major = GetParam().target}; }

  static void set_short_timeouts(Cluster& server) {
    std::vector<std::string> names{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"};
    if (server.major() >= 14) names.emplace_back("idle_session_timeout");
    if (server.major() >= 17) names.emplace_back("transaction_timeout");
    auto session = server.session();
    for (const auto& name : names) {
      session.exec("alter role postgres set " + name + " = '1s'; alter database postgres set " + name + " = '1s'");
    }
  }
};

TEST_P(TimeoutsTest, S06_OneSecondTimeoutsOfRoleAndDatabase) {
  // An index that takes longer to build than any of the time-outs allows.
  const std::string schema =
      "create function slow(bigint) returns bigint immutable language plpgsql as 'begin perform pg_sleep(0.0005); "
      "return $1; end'; create table big (id bigint primary key, n int not null default 0, pad text); "
      "create index big_slow on big (public.slow(id)); create table marker (id bigint generated always as identity "
      "primary key)";
  const bool none = source().major() > 15;
  if (none) target().exec(schema);
  source().exec(schema);
  source().exec("insert into big select i, 0, repeat(md5(i::text), 32) from generate_series(1, 3000) i");
  set_short_timeouts(source());
  set_short_timeouts(target());
  const auto clone = run("clone", {"--until", "caught-up", "--max-rate", "800kB", "--schema", none ? "none" : "full"});
  ASSERT_EQ(clone.code, 0) << clone;
  EXPECT_GT(clone.elapsed.count(), 3'000) << "the copy was meant to last longer than any time-out";
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives()) << follower.err();
  std::this_thread::sleep_for(Milliseconds(2'500));  // idle for longer than they allow
  ASSERT_TRUE(marker_arrives()) << follower.err();
  EXPECT_EQ(follower.err().find("again"), std::string::npos) << "no connection was lost: " << follower.err();
  stop_follower(follower);
  expect_equal();
}

INSTANTIATE_TEST_SUITE_P(majors, TimeoutsTest, ::testing::Values(Majors{15, 15}, Majors{12, 17}, Majors{17, 17}),
                         [](const auto& test) {
                           return std::to_string(test.param.source) + "_to_" + std::to_string(test.param.target);
                         });

}  // namespace
}  // namespace pgbaton::testing
