// A publication younger than the slot (S05): what was written between the two can never be decoded. Told before rows
// are streamed, and never tried again without end.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class PublicationAgeTest : public PairTest, public ::testing::WithParamInterface<int> {
 protected:
  ClusterOptions source_options() const override { return {.major = GetParam()}; }
  ClusterOptions target_options() const override { return {.major = std::max(GetParam(), 15)}; }

  // Debian's pg_dump is of major 15.
  const Arguments schema_{"--schema", GetParam() > 15 ? "none" : "full"};

  void clone() {
    const std::string schema = "create table t (id int primary key, v text)";
    if (GetParam() > 15) target().exec(schema);
    source().exec(schema + "; insert into t values (1, 'copied')");
    clone_until_caught_up(schema_);
  }
  void expect_refused() {
    Arguments again{"--until", "caught-up"};
    for (const auto* command : {"follow", "clone"}) {
      const auto result = run(command, again, {}, Milliseconds(20'000));
      EXPECT_EQ(result.code, 4) << command << ": " << result;
      EXPECT_THAT(result.err, HasSubstr("publication")) << result;
      EXPECT_THAT(result.err, HasSubstr("HINT")) << result;
      EXPECT_LT(result.elapsed.count(), 10'000) << result;
      again.insert(again.end(), schema_.begin(), schema_.end());
    }
    EXPECT_EQ(target().scalar("select string_agg(v, ',') from t"), "copied") << "nothing was streamed past the gap";
  }
};

TEST_P(PublicationAgeTest, S05_PublicationMadeAfterTheSlot) {
  clone();
  source().exec("drop publication pgbaton");
  source().exec("insert into t values (2, 'lost')");
  source().exec("create publication pgbaton for table t");
  source().exec("insert into t values (3, 'after')");
  expect_refused();
}

TEST_P(PublicationAgeTest, S05_PublicationDroppedAndNotMadeAgain) {
  clone();
  source().exec("drop publication pgbaton");
  source().exec("insert into t values (2, 'lost')");
  expect_refused();
}

INSTANTIATE_TEST_SUITE_P(majors, PublicationAgeTest, ::testing::Values(12, 15, 18),
                         [](const auto& test) { return "pg" + std::to_string(test.param); });

}  // namespace
}  // namespace pgbaton::testing
