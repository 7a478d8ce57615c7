// S44: what `pgbaton sequences --gap N` makes of sequences at their limits. The next value of the target lies beyond
// everything that the source gave, in the direction of the increment, or the command refuses and sets none.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct GapCase {
  const char* definition;  // of sequence s, on both sides
  const char* given;       // what the source's application has done
  const char* gap;
  const char* next;  // of the target: its next value, "refused" by the tool, or "limit": the server has none left
};

class SequencesTest : public PairTest {
 protected:
  std::string next_value() {
    try {
      return target().scalar("select nextval('s')");
    } catch (const SqlError& error) {
      return error.sqlstate == "2200H" ? "limit" : error.what();
    }
  }
  std::string outcome(const GapCase& at) {
    for (auto* side : {&source(), &target()})
      side->exec(std::string("drop sequence if exists s; create sequence s ") + at.definition);
    source().exec(at.given);
    const auto before = target().scalar("select last_value || ' ' || is_called from s");
    const auto result = run("sequences", {"--gap", at.gap});
    if (result.code == 0) return next_value();
    EXPECT_EQ(result.code, 8) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr("\"public\".\"s\""), HasSubstr("limits"), HasSubstr("HINT: ")));
    EXPECT_EQ(target().scalar("select last_value || ' ' || is_called from s"), before);
    return "refused";
  }
};

TEST_F(SequencesTest, S44_GapsAtTheLimits) {
  const GapCase cases[] = {
      {"", "select setval('s', 9223372036854775800)", "6", "9223372036854775807"},
      {"", "select setval('s', 9223372036854775800)", "7", "limit"},
      {"", "select setval('s', 9223372036854775800)", "8", "refused"},
      {"increment 9000000000000000000", "select nextval('s')", "1000000000000", "refused"},  // the product overflows
      {"increment 4611686018427387904", "select nextval('s')", "4", "refused"},              // to nothing
      {"increment -5 minvalue -1000 maxvalue 1000 start 1000", "select setval('s', -980)", "3", "-1000"},
      {"increment -5 minvalue -1000 maxvalue 1000 start 1000", "select setval('s', -980)", "4", "limit"},
      {"increment -5 minvalue -1000 maxvalue 1000 start 1000", "select setval('s', -980)", "5", "refused"},
      {"increment -1 minvalue -9223372036854775808", "select setval('s', -9223372036854775806)", "1",
       "-9223372036854775808"},
      {"increment -1 minvalue -9223372036854775808", "select setval('s', -9223372036854775806)", "3", "refused"},
      {"increment -9223372036854775807 minvalue -9223372036854775808", "select setval('s', -1)", "2", "refused"},
      {"as smallint", "select setval('s', 32766)", "0", "32767"},
      {"as smallint", "select setval('s', 32766)", "2", "refused"},
      {"maxvalue 100 cycle", "select setval('s', 98)", "1", "100"},
      {"maxvalue 100 cycle", "select setval('s', 98)", "3", "refused"},  // round the corner lies what was given before
      {"maxvalue 100 cycle", "select setval('s', 100)", "0", "1"},       // as the source itself would go on
      {"increment -1 minvalue -10 cycle", "select setval('s', -9)", "2", "refused"},
      {"cache 50", "select nextval('s')", "0", "51"},  // a session of the source may give up to 50
      {"cache 50", "select nextval('s')", "1000", "1051"},
      {"increment -3 cache 20 minvalue -1000", "select nextval('s')", "0", "-61"},
      {"increment 3 start 17", "select 1", "1000", "17"},  // never called: stays so
      {"maxvalue 20 start 17", "select 1", "1000", "17"},
      {"increment 7", "select setval('s', 5, false)", "10", "5"},
      {"increment 7", "select nextval('s'), nextval('s')", "10", "85"},
  };
  for (const auto& at : cases)
    EXPECT_EQ(outcome(at), at.next) << at.definition << "; " << at.given << "; --gap " << at.gap;
  EXPECT_EQ(run("sequences", {"--gap", "-1"}).code, 2);
  EXPECT_EQ(run("sequences", {"--gap", "1000000000001"}).code, 2);
}

// What the target's application has taken is not given to it again; a value that nobody took is no reason to go back.
TEST_F(SequencesTest, OfATargetInUseNeverGoBack) {
  for (auto* side : {&source(), &target()})
    side->exec("create sequence up; create sequence down increment -1; create sequence unused; create sequence behind");
  source().exec("select nextval('up'), nextval('down'), setval('behind', 40)");
  EXPECT_EQ(run("sequences", {"--gap", "1000"}).code, 0);
  target().exec("select nextval('up'), nextval('down'), nextval('unused')");
  const auto again = run("sequences");
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("0 of 4 sequences set, gap 0; 4 further on"));
  EXPECT_THAT(again.err, HasSubstr(R"(sequence "public"."up" of the target stays at 1002: set to 1 it would)"));
  EXPECT_EQ(
      target().scalar("select concat_ws(' ', nextval('up'), nextval('down'), nextval('unused'), nextval('behind'))"),
      "1003 -1003 2 1041");
  const auto json = run("sequences", {"--gap", "5000", "--json"});
  EXPECT_THAT(json.out, AllOf(HasSubstr(R"("sequences_set": 3)"), HasSubstr(R"("kept": 1)"))) << json;
  EXPECT_EQ(target().scalar("select concat_ws(' ', nextval('up'), nextval('down'))"), "5002 -5002");
}

// All or none: setval() cannot be taken back, so what would fail is found before the first.
TEST_F(SequencesTest, S44_NothingIsSetWhenOneCannotBe) {
  for (auto* side : {&source(), &target()}) side->exec("create sequence a; create sequence b; create sequence z");
  source().exec("select nextval('a'), nextval('b'), setval('z', 900)");
  const auto refused = [&](int code, const std::string& words, const std::string& target_conninfo) {
    const auto result =
        Tool::run({"sequences", "--source", source().conninfo(), "--target", target_conninfo, "--gap", "100"});
    EXPECT_EQ(result.code, code) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr(words), HasSubstr("\"public\".\"b\""), HasSubstr("HINT: ")));
    EXPECT_EQ(target().number("select count(*) from pg_sequences where last_value is not null"), 0);
  };
  target().exec("alter sequence b maxvalue 50");
  refused(8, "its limits are 1 and 50", target().conninfo());
  target().exec("alter sequence b maxvalue 1000 increment -1");
  refused(8, "by 1 on the source and by -1 on the target", target().conninfo());
  target().exec("alter sequence b increment 50");
  refused(8, "by 1 on the source and by 50 on the target", target().conninfo());
  target().exec(
      "alter sequence b increment 1 maxvalue 1000; create role clerk login; grant select, update on "
      "sequence a, z to clerk; grant select, usage on sequence b to clerk");
  refused(3, "may not set sequence", target().conninfo("postgres", "clerk"));
  target().exec("grant update on sequence b to clerk");
  const auto set = run("sequences", {"--gap", "100"});
  EXPECT_EQ(set.code, 0) << set;
  EXPECT_EQ(target().scalar("select concat_ws(' ', nextval('a'), nextval('b'), nextval('z'))"), "102 102 1001");
}

}  // namespace
}  // namespace pgbaton::testing
