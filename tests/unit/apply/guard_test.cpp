#include "../../../src/apply/guard.hpp"

#include <gtest/gtest.h>

#include "change_builder.hpp"

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
  TargetTable table = pgbaton::testing::make_table("t", {{"a b", "integer", true}, {"v", "text"}, {"c", "text", true}});
  table.guard = golden.mode;
  table.ledger = "pgbaton.ledger_7";
  EXPECT_EQ(guard::column(golden.mode), golden.column);
  EXPECT_EQ(guard::is_stored(golden.mode), *golden.column != '\0');
  EXPECT_EQ(guard::not_newer(table, "t", "$3::pg_lsn"), golden.condition);
  EXPECT_EQ(guard::assignment(golden.mode, "$3::pg_lsn"), golden.assignment);
}

INSTANTIATE_TEST_SUITE_P(
    EveryMode, GuardText,
    ::testing::Values(Golden{GuardMode::column, R"("_pgbaton_lsn")", R"( AND t."_pgbaton_lsn" <= $3::pg_lsn)",
                             R"("_pgbaton_lsn" = $3::pg_lsn)"},
                      Golden{GuardMode::ledger, "",
                             " AND NOT EXISTS (SELECT FROM pgbaton.ledger_7 AS l WHERE l.k1 OPERATOR(pg_catalog.=) "
                             "t.\"a b\" AND l.k2 OPERATOR(pg_catalog.=) t.\"c\" AND l.commit_lsn > $3::pg_lsn)",
                             ""},
                      Golden{GuardMode::none, "", "", ""}));

}  // namespace
}  // namespace pgbaton::apply
