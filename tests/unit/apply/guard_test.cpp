#include "../../../src/apply/guard.hpp"

#include <gtest/gtest.h>

namespace pgbaton::apply {
namespace {

struct Golden {
  GuardMode mode;
  const char* column;
  const char* condition;
  const char* assignment;
};

class GuardText : public ::testing::TestWithParam<Golden> {};

TEST_P(GuardText, IsTheSameEverywhere) {
  const Golden& golden = GetParam();
  EXPECT_EQ(guard::column(golden.mode), golden.column);
  EXPECT_EQ(guard::is_stored(golden.mode), *golden.column != '\0');
  EXPECT_EQ(guard::not_newer(golden.mode, "t", "$3::pg_lsn"), golden.condition);
  EXPECT_EQ(guard::assignment(golden.mode, "$3::pg_lsn"), golden.assignment);
}

INSTANTIATE_TEST_SUITE_P(EveryMode, GuardText,
                         ::testing::Values(Golden{GuardMode::column, R"("_pgbaton_lsn")",
                                                  R"( AND t."_pgbaton_lsn" <= $3::pg_lsn)",
                                                  R"("_pgbaton_lsn" = $3::pg_lsn)"},
                                           Golden{GuardMode::none, "", "", ""}));

}  // namespace
}  // namespace pgbaton::apply
