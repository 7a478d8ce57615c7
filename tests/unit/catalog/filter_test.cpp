#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/catalog/table.hpp>

namespace pgbaton::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Table table(Oid oid, const std::string& schema, const std::string& name, Oid parent = 0) {
  Table t;
  t.oid = oid;
  t.name = {schema, name};
  t.parent_oid = parent;
  t.is_partition = parent != 0;
  return t;
}

std::vector<Table> sample() {
  return {table(1, "public", "orders"),      table(2, "public", "order_lines"), table(3, "public", "Users"),
          table(4, "audit", "orders"),       table(5, "audit", "log*"),         table(6, "public", "events"),
          table(7, "public", "events_1", 6), table(8, "other", "events_2", 6),  table(9, "public", "größe")};
}

std::vector<std::string> names(const TableFilter& filter) {
  std::vector<std::string> out;
  for (const auto& t : apply_filter(sample(), filter)) out.push_back(t.name.schema + "." + t.name.name);
  return out;
}

std::string refusal(const TableFilter& filter) {
  try {
    apply_filter(sample(), filter);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_FALSE(error.hint().empty());
    return error.message();
  }
  return "";
}

TEST(FilterTest, NoFilterKeepsAll) {
  EXPECT_EQ(names({}).size(), 9u);
}

TEST(FilterTest, NamesFollowSqlIdentifierRules) {
  EXPECT_THAT(names({.include_tables = {"ORDERS"}}), ElementsAre("public.orders"));
  EXPECT_THAT(names({.include_tables = {"\"Users\"", "Audit.Orders"}}), ElementsAre("public.Users", "audit.orders"));
  EXPECT_THAT(refusal({.include_tables = {"Users"}}), HasSubstr("--include-table: \"Users\" matches no table"));
}

TEST(FilterTest, WildcardsCountOutsideOfQuotesOnly) {
  EXPECT_THAT(names({.include_tables = {"order*"}}), ElementsAre("public.orders", "public.order_lines"));
  EXPECT_THAT(names({.include_tables = {"*.order?"}}), ElementsAre("public.orders", "audit.orders"));
  EXPECT_THAT(names({.include_tables = {"audit.\"log*\""}}), ElementsAre("audit.log*"));
  EXPECT_THAT(refusal({.include_tables = {"audit.\"lo*\""}}), HasSubstr("matches no table"));
  EXPECT_THAT(names({.include_tables = {"gr??e"}}), ElementsAre("public.größe"));
  EXPECT_THAT(names({.include_tables = {"*o*e*s"}}), ElementsAre("public.orders", "public.order_lines"));
}

TEST(FilterTest, ExcludeWinsOverInclude) {
  EXPECT_THAT(names({.include_tables = {"order*"}, .exclude_tables = {"order_lines"}}), ElementsAre("public.orders"));
  EXPECT_THAT(names({.include_tables = {"orders"}, .include_schemas = {"audit"}}),
              ElementsAre("public.orders", "audit.orders", "audit.log*"));
  EXPECT_THAT(names({.exclude_schemas = {"pub*", "oth*"}}), ElementsAre("audit.orders", "audit.log*"));
}

TEST(FilterTest, PartitionedTableStandsForItsPartitions) {
  EXPECT_THAT(names({.include_tables = {"events"}}), ElementsAre("public.events", "public.events_1", "other.events_2"));
  EXPECT_THAT(names({.include_tables = {"e*"}, .exclude_tables = {"events"}}), IsEmpty());
  EXPECT_THAT(names({.include_tables = {"events"}, .exclude_tables = {"events_1"}}),
              ElementsAre("public.events", "other.events_2"));
}

TEST(FilterTest, PatternsWithoutMeaningAreRefusedByName) {
  EXPECT_THAT(refusal({.exclude_tables = {"orders", "nothing*"}}),
              HasSubstr("--exclude-table: \"nothing*\" matches no table"));
  EXPECT_THAT(refusal({.exclude_schemas = {"nowhere"}}), HasSubstr("--exclude-schema: \"nowhere\""));
  EXPECT_THAT(refusal({.include_schemas = {"a.b"}}), HasSubstr("is not the name of one schema"));
  EXPECT_THAT(refusal({.exclude_data = {"nothing"}}), HasSubstr("--exclude-data: \"nothing\""));
  EXPECT_THAT(refusal({.include_tables = {"\"open"}}), HasSubstr("quote that is not closed"));
  EXPECT_THAT(refusal({.include_tables = {"a.b.c"}}), HasSubstr("more than a schema"));
  EXPECT_THAT(refusal({.include_tables = {"a."}}), HasSubstr("empty name"));
}

TEST(FilterTest, ExcludedDataKeepsTheTable) {
  EXPECT_EQ(names({.exclude_data = {"events", "audit.*"}}).size(), 9u);
}

}  // namespace
}  // namespace pgbaton::catalog
