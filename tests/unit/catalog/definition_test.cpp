#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/catalog/definition.hpp>

namespace pgbaton::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Definition table(const std::string& name) {
  return {.kind = "table", .relation = {"public", name}};
}

Definition part(const std::string& kind, const std::string& relation, const std::string& name,
                const std::string& text) {
  return {.kind = kind,
          .relation = {"public", relation},
          .part = name,
          .called = kind + " " + name,
          .text = text,
          .make = "MAKE " + name,
          .take = "TAKE " + name,
          .enforces = true};
}

std::vector<std::string> told(const std::vector<Definition>& source, const std::vector<Definition>& target,
                              const DefinitionScope& scope) {
  std::vector<std::string> lines;
  for (const auto& one : compare_definitions(source, target, scope))
    lines.push_back(one.object + " " + one.message + ". " + one.remedy);
  return lines;
}

TEST(DefinitionTest, NamesWhatOneSideHasAndWhatDiffers) {
  const std::vector<Definition> source{table("t"), part("index", "t", "a", "1"), part("index", "t", "b", "1")};
  const std::vector<Definition> target{table("t"), part("index", "t", "b", "2"), part("index", "t", "c", "1")};
  const DefinitionScope scope{.tables = {{"public", "t"}}};
  EXPECT_THAT(
      told(source, target, scope),
      ElementsAre(R"("public"."t" index a is on the source only. MAKE a; on the target, if it is wanted there.)",
                  R"("public"."t" index b is not the same on both sides. TAKE b; MAKE b; on the target, if it is )"
                  "wanted there.",
                  R"("public"."t" index c is on the target only. TAKE c; on the target, if it is wanted there.)"));
  EXPECT_EQ(told(source, target, {.tables = {{"public", "t"}}, .texts = false}).size(), 2U);
}

TEST(DefinitionTest, SaysNothingOfWhatIsNotCarriedOrHarmless) {
  auto plain = part("index", "t", "more", "");
  plain.enforces = false;
  EXPECT_THAT(told({table("t"), table("u"), part("index", "u", "a", "")}, {table("t"), table("u"), plain},
                   {.tables = {{"public", "t"}}}),
              IsEmpty());
  EXPECT_THAT(told({table("t"), part("index", "t", "a", "")}, {}, {.tables = {{"public", "t"}}}), IsEmpty())
      << "a table that is missing is named elsewhere";
}

// Foreign keys to tables that a filter leaves out are left out by it, too, like views and functions.
TEST(DefinitionTest, KnowsWhatAFilterLeavesOut) {
  auto key = part("constraint", "t", "k", "");
  key.referenced = R"("public"."outside")";
  const std::vector<Definition> source{table("t"),
                                       key,
                                       {.kind = "view", .relation = {"public", "v"}},
                                       {.kind = "function", .relation = {"public", "f"}, .part = "integer"}};
  EXPECT_THAT(told(source, {table("t")}, {.tables = {{"public", "t"}}, .whole = false}), IsEmpty());
  EXPECT_THAT(
      told(source, {table("t")}, {.tables = {{"public", "t"}}}),
      ElementsAre(R"("public"."t" constraint k is on the source only. MAKE k; on the target, if it is wanted there.)",
                  R"("public"."f"(integer) the function is on the source only. Take it from the source: pg_dump )"
                  "--schema-only shows it.",
                  R"("public"."v" the view is on the source only. Take it from the source: pg_dump --schema-only )"
                  "shows it."));
}

}  // namespace
}  // namespace pgbaton::catalog
