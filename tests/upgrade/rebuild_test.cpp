// rebuild on the oldest and the newest major: how databases are made and described has changed in between.
#include "fault/rebuild.hpp"

namespace pgbaton::testing {
namespace {

class RebuildMajors : public Rebuilds, public ::testing::WithParamInterface<std::pair<int, int>> {
 protected:
  ClusterOptions source_options() const override { return {.major = GetParam().first}; }
  ClusterOptions target_options() const override { return {.major = GetParam().second}; }
};

TEST_P(RebuildMajors, TwoRebuildsAndARollback) {
  create_tables();
  for (const long long kept : {0, 1}) {
    next_version();
    const auto result = rebuild({"--verify"});
    ASSERT_EQ(result.code, 0) << result;
    expect_served();
    expect_clean(kept);
  }
  const auto newest = served_version();
  const auto back = rebuild({"--rollback"});
  EXPECT_EQ(back.code, 0) << back;
  EXPECT_EQ(served_version(), newest - 1);
  EXPECT_EQ(Tool::run(line("check", {"--rebuild"})).code, 0);
}

INSTANTIATE_TEST_SUITE_P(Pairs, RebuildMajors, ::testing::Values(std::pair{12, 12}, std::pair{14, 18}));

}  // namespace
}  // namespace pgbaton::testing
