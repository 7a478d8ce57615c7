// How types of one name differ on both sides, and what makes them alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/catalog/type.hpp>

namespace pgbaton::catalog {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Type labels(const std::vector<std::string>& names) {
  Type type;
  type.name = {"s", "t"};
  type.labels = names;
  return type;
}

Type attributes(const std::vector<Attribute>& all) {
  Type type;
  type.name = {"s", "t"};
  type.kind = 'c';
  type.attributes = all;
  return type;
}

std::string statements(const Type& source, const Type& target) {
  const auto difference = compare(source, target, true);
  return difference ? difference->statements : "none";
}

TEST(TypeTest, LabelsOfAnEnum) {
  const auto source = labels({"a", "b", "c"});
  EXPECT_EQ(statements(source, labels({"a", "b", "c"})), "none");
  EXPECT_EQ(statements(source, labels({"own", "a", "b", "more", "c"})), "none");
  EXPECT_EQ(statements(source, labels({"a", "x", "c"})), "ALTER TYPE \"s\".\"t\" RENAME VALUE 'x' TO 'b'; ");
  EXPECT_EQ(statements(source, labels({"a", "c"})), "ALTER TYPE \"s\".\"t\" ADD VALUE 'b' AFTER 'a'; ");
  EXPECT_EQ(statements(source, labels({"c"})),
            "ALTER TYPE \"s\".\"t\" ADD VALUE 'a' BEFORE 'c'; ALTER TYPE \"s\".\"t\" ADD VALUE 'b' AFTER 'a'; ");
  EXPECT_EQ(statements(labels({"it's"}), labels({})), "ALTER TYPE \"s\".\"t\" ADD VALUE 'it''s'; ");
  const auto order = compare(source, labels({"b", "a", "c"}), true);
  ASSERT_TRUE(order);
  EXPECT_THAT(order->statements, IsEmpty());
  EXPECT_THAT(order->reason, HasSubstr("its label 'b' stands where the source has 'a'"));
  EXPECT_FALSE(order->rows_differ);
}

TEST(TypeTest, AttributesOfACompositeTypeAreSentByPlace) {
  const auto source = attributes({{"x", "integer"}, {"y", "text"}});
  EXPECT_EQ(statements(source, source), "none");
  EXPECT_EQ(statements(source, attributes({{"x", "integer"}})), "ALTER TYPE \"s\".\"t\" ADD ATTRIBUTE \"y\" text; ");
  EXPECT_EQ(statements(source, attributes({{"x", "integer"}, {"z", "text"}})),
            "ALTER TYPE \"s\".\"t\" RENAME ATTRIBUTE \"z\" TO \"y\"; ");
  EXPECT_EQ(statements(source, attributes({{"o", "date"}, {"x", "integer"}, {"y", "text"}})),
            "ALTER TYPE \"s\".\"t\" DROP ATTRIBUTE \"o\"; ");
  EXPECT_EQ(statements(source, attributes({{"y", "text"}})), "") << "an attribute comes to the end only";
  EXPECT_EQ(statements(source, attributes({{"y", "text"}, {"x", "integer"}})), "");
  const auto retyped = compare(source, attributes({{"x", "bigint"}, {"y", "text"}}), true);
  ASSERT_TRUE(retyped);
  EXPECT_TRUE(retyped->rows_differ);
  EXPECT_EQ(retyped->statements, "ALTER TYPE \"s\".\"t\" ALTER ATTRIBUTE \"x\" TYPE integer; ");
}

TEST(TypeTest, DomainsByTheWordsOfOneMajorOnly) {
  Type source, target;
  source.kind = target.kind = 'd';
  source.base = target.base = "integer";
  source.constraints["c"] = "CHECK ((VALUE > 0))";
  target.constraints["c"] = "CHECK (VALUE > 0)";
  EXPECT_TRUE(compare(source, target, true));
  EXPECT_FALSE(compare(source, target, false));
  target.constraints.clear();
  EXPECT_TRUE(compare(source, target, false));
}

}  // namespace
}  // namespace pgbaton::catalog
