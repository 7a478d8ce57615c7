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
  EXPECT_EQ(delete_keys(plan, {{"it's", "7"}}),
            R"(DELETE FROM ONLY "s"."t""x" WHERE ("b", "a") IN (('it''s'::pg_catalog.text, '7'::integer)))");
  EXPECT_EQ(insert_rows(plan, {{"7", std::nullopt}}, Lsn{0x10}),
            R"(INSERT INTO "s"."t""x" ("a", "b", "_pgbaton_lsn") OVERRIDING SYSTEM VALUE VALUES ('7', NULL, '0/10'))");
}

}  // namespace
}  // namespace pgbaton::verify
