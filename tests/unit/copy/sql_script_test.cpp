#include "../../../src/copy/sql_script.hpp"

#include <gmock/gmock.h>
#include <pgbaton/base/error.hpp>

namespace pgbaton::copy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string header(int id, const std::string& name, const std::string& more = "") {
  return "--\n-- TOC entry " + std::to_string(id) + " (class 2606 OID 16399)\n" + more + "-- Name: " + name +
         "; Type: CONSTRAINT; Schema: public; Owner: postgres\n-- Data Pos: 0\n--\n\n";
}

const std::string kPreamble =
    "--\n-- PostgreSQL database dump\n--\n\n\\restrict abc\n\nSET statement_timeout = 0;\n"
    "SELECT pg_catalog.set_config('search_path', '', false);\n\n";
const std::string kTrailer =
    "-- Completed on 2026-01-01\n\n--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict abc\n\n";

TEST(SqlScript, SplitsIntoEntries) {
  const auto entries =
      split_script(kPreamble + header(3, "t t_pkey") + "ALTER TABLE a ADD b;\n\n\n" +
                       header(4, "u; Type: x; Schema: y", "-- Dependencies: 3 17\n") + "SELECT 2;\n\n" + kTrailer,
                   Section::post_data);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].id, 3);
  EXPECT_EQ(entries[0].class_oid, 2606u);
  EXPECT_EQ(entries[0].catalog_oid, 16399u);
  EXPECT_EQ(entries[0].tag, "t t_pkey");
  EXPECT_EQ(entries[0].description, "CONSTRAINT");
  EXPECT_EQ(entries[0].schema, "public");
  EXPECT_EQ(first_statement(entries[0].sql), "ALTER TABLE a ADD b");
  EXPECT_EQ(entries[1].tag, "u; Type: x; Schema: y");
  EXPECT_THAT(entries[1].dependencies, ::testing::ElementsAre(3, 17));
  EXPECT_EQ(first_statement(entries[1].sql), "SELECT 2");
  EXPECT_THAT(entries[1].sql, Not(HasSubstr("unrestrict")));
}

// A literal, a quoted name or a function body that holds a header is no header: otherwise whoever may write a comment
// on the source could run statements on the target.
TEST(SqlScript, HeadersInsideQuotesAreText) {
  const std::string fake =
      "\n-- TOC entry 9 (class 0 OID 0)\n-- Name: x; Type: T; Schema: s; Owner: o\n--\nDROP TABLE t;\n";
  for (const std::string& quoted :
       std::vector<std::string>{"COMMENT ON t IS 'a" + fake + "';", "COMMENT ON t IS E'a\\'" + fake + "';",
                                "SELECT \"a\"\"" + fake + "\";", "DO $x$ $$ " + fake + "$x$;",
                                "SELECT 1 /* /* */" + fake + "*/;", "SELECT 'it''s" + fake + "', a$1$b, $1;"}) {
    const auto entries = split_script(
        kPreamble + header(3, "a") + quoted + "\n\n" + header(4, "b") + "SELECT 1;\n" + kTrailer, Section::pre_data);
    ASSERT_EQ(entries.size(), 2u) << quoted;
    EXPECT_EQ(first_statement(entries[0].sql), quoted.substr(0, quoted.size() - 1));
    EXPECT_EQ(entries[1].id, 4);
  }
}

TEST(SqlScript, AStringThatIsNoEscapeStringKeepsItsBackslash) {
  const auto entries = split_script(
      kPreamble + header(3, "a") + "SELECT 'a\\';\n" + header(4, "b") + "SELECT 1;\n" + kTrailer, Section::pre_data);
  EXPECT_EQ(entries.size(), 2u);
}

// pg_restore prints SET default_tablespace once for all that follow; an entry that runs alone needs it too.
TEST(SqlScript, EveryEntryCarriesTheSettingsInForce) {
  const auto entries =
      split_script(kPreamble + header(1, "a") +
                       "SELECT 1;\n\nSET default_tablespace = fast;\n\nSET default_table_access_method = heap;\n\n" +
                       header(2, "b") + "SELECT 2;\n\n" + header(3, "c") +
                       "SELECT 3;\n\nSET default_tablespace = '';\n\n" + header(4, "d") + "SELECT 4;\n\n" + kTrailer,
                   Section::post_data);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_FALSE(entries[0].sql.starts_with("SET"));
  EXPECT_TRUE(entries[1].sql.starts_with("SET default_tablespace = fast;\nSET default_table_access_method = heap;\n"));
  EXPECT_TRUE(entries[2].sql.starts_with("SET default_tablespace = fast;\n"));
  EXPECT_TRUE(entries[3].sql.starts_with("SET default_tablespace = '';\n"));
  EXPECT_EQ(first_statement(entries[2].sql), "SELECT 3");
}

TEST(SqlScript, AnEntryOfCommentsOnlyHasNoStatement) {
  const auto entries =
      split_script(kPreamble + header(1, "public") + "-- *not* creating schema\n\n\n" + kTrailer, Section::pre_data);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(first_statement(entries[0].sql), "");
}

TEST(SqlScript, RefusesAnotherForm) {
  EXPECT_THROW(split_script("-- TOC entry x (class 1 OID 2)\n", Section::pre_data), Error);
  EXPECT_THROW(split_script("-- TOC entry 1 (class 1 OID 2)\nSELECT 1;\n", Section::pre_data), Error);
  EXPECT_TRUE(split_script("", Section::pre_data).empty());
}

}  // namespace
}  // namespace pgbaton::copy
