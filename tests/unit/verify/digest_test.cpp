#include "../../../src/verify/digest.hpp"

#include <gtest/gtest.h>

#include "../../../src/verify/repair_sql.hpp"

namespace pgbaton::verify {
namespace {

TEST(Digest, SumsAreTakenModulo64Bits) {
  EXPECT_EQ(parse_sum("0"), 0u);
  EXPECT_EQ(parse_sum("-1"), ~std::uint64_t{0});
  EXPECT_EQ(parse_sum("18446744073709551616"), 0u);                  // 2^64
  EXPECT_EQ(parse_sum("-18446744073709551617"), ~std::uint64_t{0});  // -2^64 - 1
  EXPECT_EQ(parse_sum("9223372036854775807") + parse_sum("1"), 1ull << 63);
}

TEST(Digest, BucketsDifferByRowsBySumOrByBeingThere) {
  TableDigest digest;
  digest.sides[0].buckets = {{1, {2, 10}}, {2, {1, 5}}, {3, {1, 7}}, {4, {1, 1}}};
  digest.sides[1].buckets = {{1, {2, 10}}, {2, {1, 6}}, {3, {2, 7}}, {5, {1, 1}}};
  EXPECT_EQ(digest.differing(), (std::vector<std::int64_t>{2, 3, 4, 5}));
}

TEST(RepairSql, KeysAndRowsAreLiteralsOfTheirTypes) {
  TablePlan plan;
  auto& target = plan.sides[1];
  target.table.name = {"s", "t\"x"};
  target.from = "ONLY " + target.table.name.quoted();
  target.table.columns.resize(2);
  target.table.columns[0].name = "a";
  target.table.columns[0].cast_type = "integer";
  target.table.columns[1].name = "b";
  target.table.columns[1].cast_type = "pg_catalog.text";
  target.columns = {&target.table.columns[0], &target.table.columns[1]};
  plan.key = {1, 0};
  plan.guarded = true;
  target.key_equality = {"OPERATOR(s.===)", "OPERATOR(pg_catalog.=)"};
  EXPECT_EQ(delete_keys(plan, {{"it's", "7"}}),
            R"(DELETE FROM ONLY "s"."t""x" AS t WHERE )"
            R"(((t."b" OPERATOR(s.===) 'it''s'::pg_catalog.text AND t."a" OPERATOR(pg_catalog.=) '7'::integer)))");
  EXPECT_EQ(insert_rows(plan, {{"7", std::nullopt}}, Lsn{0x10}),
            R"(INSERT INTO "s"."t""x" ("a", "b", "_pgbaton_lsn") OVERRIDING SYSTEM VALUE VALUES ('7', NULL, '0/10'))");
  plan.key = {0};
  target.key_equality = {"OPERATOR(pg_catalog.=)"};
  target.table.columns[0].type = {"pg_catalog", "int4"};
  EXPECT_EQ(key_condition(plan, Where::target, {{"7"}, {"8"}}),
            R"(t."a" OPERATOR(pg_catalog.=) ANY (ARRAY['7'::integer, '8'::integer]))");
  EXPECT_EQ(update_rows(plan, {1}, {{"7", "x"}}, Lsn{0x10}),
            R"(UPDATE ONLY "s"."t""x" AS t SET "b" = v.c1, "_pgbaton_lsn" = '0/10' FROM (VALUES ('7'::integer, )"
            R"('x'::pg_catalog.text)) AS v (k0, c1) WHERE t."a" OPERATOR(pg_catalog.=) v.k0)");
}

}  // namespace
}  // namespace pgbaton::verify
