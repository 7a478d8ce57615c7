#include <gtest/gtest.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>

namespace pgbaton {
namespace {

TEST(Quoting, Identifiers) {
  EXPECT_EQ(quote_identifier("a"), "\"a\"");
  EXPECT_EQ(quote_identifier("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ((QualifiedName{"s.x", "T"}.quoted()), "\"s.x\".\"T\"");
}

TEST(Quoting, Literals) {
  EXPECT_EQ(quote_literal(""), "''");
  EXPECT_EQ(quote_literal("it's"), "'it''s'");
  EXPECT_EQ(quote_literal("a\\b'"), "E'a\\\\b'''");
}

TEST(QualifiedName, FollowsTheRulesOfSqlIdentifiers) {
  EXPECT_EQ(parse_qualified_name("t"), (QualifiedName{"public", "t"}));
  EXPECT_EQ(parse_qualified_name("S.Table_1$"), (QualifiedName{"s", "table_1$"}));
  EXPECT_EQ(parse_qualified_name("\"S\".\"a.b\"\"c\""), (QualifiedName{"S", "a.b\"c"}));
  EXPECT_EQ(parse_qualified_name(" s . t "), (QualifiedName{"s", "t"}));
  EXPECT_EQ(parse_qualified_name("straße.Öl"), (QualifiedName{"straße", "Öl"}));
  EXPECT_EQ(parse_qualified_name("\" \""), (QualifiedName{"public", " "}));
}

TEST(QualifiedName, RefusesEverythingElse) {
  const std::string long_name(64, 'a');
  for (const std::string& text :
       {std::string(""), std::string("."), std::string("a."), std::string(".a"), std::string("a.b.c"),
        std::string("1a"), std::string("a-b"), std::string("\"a"), std::string("\"\""), std::string("\"a\"b"),
        std::string("a b"), std::string("a;drop"), long_name, std::string("\"a\0b\"", 5)}) {
    try {
      parse_qualified_name(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << text;
      EXPECT_FALSE(e.hint().empty());
    }
  }
  EXPECT_EQ(parse_qualified_name(std::string(63, 'a')).name.size(), 63u);
}

TEST(ReplicaNames, DefaultAndNamed) {
  for (const auto* given : {"", "default"}) {
    const ReplicaNames names(given);
    EXPECT_EQ(names.name, "default");
    EXPECT_EQ(names.base, "pgbaton");
    EXPECT_EQ(names.publication_inserts, "pgbaton__ins");
    EXPECT_EQ(names.temporary_slot(3), "pgbaton__tmp_3");
  }
  const ReplicaNames names("blue_2");
  EXPECT_EQ(names.name, "blue_2");
  EXPECT_EQ(names.base, "pgbaton_blue_2");
  EXPECT_EQ(names.publication_inserts, "pgbaton_blue_2__ins");
}

// "_ins" would own what is the second publication of the default replica.
TEST(ReplicaNames, RefusesWhatCouldBeMistaken) {
  for (const auto* given :
       {"A", "a-b", "a__b", "_ins", "_tmp_1", "a b", "ä", "a.b", "1234567890123456789012345678901"}) {
    EXPECT_THROW(ReplicaNames{given}, Error) << given;
  }
  EXPECT_EQ(ReplicaNames("123456789012345678901234567890").base.size(), 38u);
}

}  // namespace
}  // namespace pgbaton
