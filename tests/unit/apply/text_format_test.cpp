#include "../../../src/apply/text_format.hpp"

#include <gtest/gtest.h>

namespace pgbaton::apply {
namespace {

wire::Value text(std::string_view data) {
  return {wire::ValueKind::text, data};
}

TEST(ArrayLiteral, QuotesWhatTheGrammarNeeds) {
  ArrayLiteral array;
  array.add(text("a\"b\\c"), false);
  array.add(wire::Value{}, false);
  array.add(text(""), false);
  array.add(text("NULL"), false);
  array.add(text("{1,2}"), false);
  array.add(text("x\ny\tz 'q'"), false);
  EXPECT_EQ(array.finish(), R"({"a\"b\\c",NULL,"","NULL","{1,2}",)"
                            "\"x\ny\tz 'q'\"}");
}

TEST(ArrayLiteral, LeavesNumbersBareAndStartsAnew) {
  ArrayLiteral array;
  array.add(text("-5"), true);
  array.add(text("12"), true);
  EXPECT_EQ(array.finish(), "{-5,12}");
  array.clear();
  array.add(wire::Value{}, true);
  EXPECT_EQ(array.finish(), "{NULL}");
}

TEST(ArrayLiteral, BackslashesAtTheEdges) {
  ArrayLiteral array;
  array.add(text("\\"), false);
  array.add(text("\"\""), false);
  EXPECT_EQ(array.finish(), R"({"\\","\"\""})");
}

TEST(CopyField, EscapesWhatWouldEndAFieldOrARow) {
  std::string line;
  append_copy_field(line, text("a\tb\nc\rd\\e"));
  line += '\t';
  append_copy_field(line, wire::Value{});
  line += '\t';
  append_copy_field(line, text(""));
  line += '\t';
  append_copy_field(line, text("\\N"));
  EXPECT_EQ(line, "a\\tb\\nc\\rd\\\\e\t\\N\t\t\\\\N");
}

TEST(IntegerText, ComparesByValue) {
  EXPECT_TRUE(integer_text_less("9", "10"));
  EXPECT_TRUE(integer_text_less("-10", "-9"));
  EXPECT_TRUE(integer_text_less("-9223372036854775808", "9223372036854775807"));
  EXPECT_FALSE(integer_text_less("7", "7"));
}

}  // namespace
}  // namespace pgbaton::apply
