#include "named_shapes.hpp"

#include <nlohmann/json.hpp>
#include <regex>

namespace pgbaton::testing {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Arguments NamedShapesTest::line(const std::string& database, const std::string& command, const Arguments& more) {
  Arguments all{command,  "--source", source().conninfo(database), "--target", target().conninfo(database),
                "--name", database};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

ToolResult NamedShapesTest::in(const std::string& database, const std::string& command, const Arguments& more) {
  return Tool::run(line(database, command, more));
}

void NamedShapesTest::create(const std::string& database, const std::string& source_sql,
                             const std::string& target_sql) {
  for (auto* cluster : {&source(), &target()}) cluster->exec("create database " + database);
  source().exec(source_sql, database);
  if (!target_sql.empty()) target().exec(target_sql, database);
}

void NamedShapesTest::succeed(const std::string& database, const std::string& command, const Arguments& more) {
  const auto result = in(database, command, more);
  ASSERT_EQ(result.code, 0) << database << ": " << command << result;
}

void NamedShapesTest::expect_equal_in(const std::string& database, const CompareOptions& options) {
  EXPECT_THAT(differences(source().conninfo(database), target().conninfo(database), options), IsEmpty()) << database;
}

std::vector<std::string> NamedShapesTest::findings(const std::string& database, const Arguments& more) {
  Arguments all{"--json"};
  all.insert(all.end(), more.begin(), more.end());
  const auto result = in(database, "check", all);
  std::vector<std::string> lines;
  const auto document = nlohmann::json::parse(result.out, nullptr, false);
  if (!document.is_object()) return {result.out + result.err};
  for (const auto& f : document["findings"])
    lines.push_back(f["severity"].get<std::string>() + " " + f["id"].get<std::string>() + " " +
                    f["object"].get<std::string>());
  return lines;
}

void NamedShapesTest::constraints_that_only_the_target_has() {
  create("s37", "create table t (id int primary key, v int, w text); insert into t values (1, 1, 'a'), (2, 2, 'b')");
  succeed("s37", "clone", {"--until", "caught-up"});
  target().exec("alter table t add constraint extra unique (v)", "s37");
  source().exec("insert into t values (3, 3, 'c'); update t set v = 1 where id = 2; insert into t values (4, 4, 'd')",
                "s37");
  auto stopped = in("s37", "follow", {"--until", "caught-up"});
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("extra"), HasSubstr("\"public\".\"t\""), HasSubstr("(id)=(2)"),
                                 HasSubstr("LSN"), HasSubstr("HINT")));
  EXPECT_EQ(target().number("select count(*) from t where id in (3, 4)", "s37"), 0) << "one transaction";
  const std::regex lsn("LSN ([0-9A-F]+/[0-9A-F]+)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(stopped.err, found, lsn)) << stopped;
  EXPECT_EQ(source().scalar("select confirmed_flush_lsn < '" + found[1].str() +
                            "' from pg_replication_slots where database = 's37'"),
            "t");
  target().exec("alter table t drop constraint extra", "s37");
  succeed("s37", "follow", {"--until", "caught-up"});
  expect_equal_in("s37");

  // Not enforced under replica role: looked at before `ready`, and again at finish.
  const std::string own =
      "create extension btree_gist; create table t (id int primary key, x int, r int4range, y int,"
      "constraint x_once unique (x) deferrable initially deferred,"
      "constraint r_free exclude using gist (y with =, r with &&) where (y > 0) deferrable)";
  create("s59",
         "create table t (id int primary key, x int, r int4range, y int);"
         "insert into t select i, i, int4range(i * 10, i * 10 + 10), 1 from generate_series(1, 9) i",
         own);
  succeed("s59", "clone", {"--schema", "none"});
  source().exec("update t set x = x % 9 + 1; update t set r = int4range(100 - lower(r), 110 - lower(r))", "s59");
  source().exec("update t set x = 5 where id = 1", "s59");
  stopped = in("s59", "follow", {"--until", "caught-up"});
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("x_once"), HasSubstr("(5)")));
  EXPECT_EQ(target().scalar("select phase from pgbaton.replica", "s59"), "streaming");
  source().exec("update t set x = 2 where id = 1; update t set r = '[10,25)', y = 0 where id = 2", "s59");
  succeed("s59", "follow", {"--until", "caught-up"});
  expect_equal_in("s59");
  source().exec("update t set y = 1 where id = 2", "s59");
  stopped = in("s59", "finish");
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("r_free"));
  source().exec("update t set y = null, x = null where id in (2, 3)", "s59");
  succeed("s59", "finish");
  expect_equal_in("s59");
}

void NamedShapesTest::refused_before_anything_is_made() {
  create("s47",
         "create table t (id int primary key); select count(lo_from_bytea(0, 'x')) from generate_series(1, 10000)");
  source().exec("select lo_unlink(min(oid)) from pg_largeobject_metadata", "s47");
  EXPECT_THAT(findings("s47"), Contains("blocker source.large_objects pg_largeobject"));
  const auto refused = in("s47", "clone");
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("9,999 large objects"));

  const std::string ascii = " template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'";
  source().exec("create database s33" + ascii);
  target().exec("create database s33");
  source().exec("create table t (id int primary key, v text); insert into t values (1, E'\\xe9')", "s33");
  EXPECT_THAT(findings("s33"), Contains("blocker pair.encoding encoding"));
  EXPECT_EQ(in("s33", "clone").code, 3);
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  for (const auto* database : {"s47", "s33"})
    EXPECT_THAT(target_leftovers(target().conninfo(database)), IsEmpty()) << database;
}

void NamedShapesTest::other_encodings() {
  const std::string latin = " template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'";
  source().exec("create database latin" + latin);
  target().exec("create database latin" + latin);
  source().exec("create database to_utf8" + latin);
  target().exec("create database to_utf8 template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'");
  for (const std::string database : {"latin", "to_utf8"}) {
    const std::string utf8 = " client_encoding=UTF8";
    Session left(source().conninfo(database) + utf8), right(target().conninfo(database) + utf8);
    left.exec(
        "create table \"Größe\" (\"Schlüssel\" text primary key, v text, b bytea);"
        "insert into \"Größe\" values ('ä', 'é', '\\xe9'), ('ß', 'ÿ', null)");
    succeed(database, "clone");
    left.exec(
        "update \"Größe\" set v = 'ö' where \"Schlüssel\" = 'ä'; insert into \"Größe\" values ('ñ', 'ü', '\\xff');"
        "update \"Größe\" set \"Schlüssel\" = 'Æ' where \"Schlüssel\" = 'ß'");
    succeed(database, "follow", {"--until", "caught-up"});
    const std::string rows =
        "select \"Schlüssel\", v, b, convert_to(v, 'UTF8') from \"Größe\" order by convert_to(\"Schlüssel\", 'UTF8')";
    EXPECT_EQ(left.query(rows), right.query(rows)) << database;
    EXPECT_EQ(right.scalar("select encode(convert_to(v, 'LATIN1'), 'hex') from \"Größe\" where \"Schlüssel\" = 'ñ'"),
              "fc");
  }
}

}  // namespace pgbaton::testing
