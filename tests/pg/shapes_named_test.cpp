// What cannot be carried is named, before anything starts or by stopping; and targets that have tables of their own.
// Each test carries several databases of one pair of servers.
#include <nlohmann/json.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NamedShapesTest : public PairTest {
 protected:
  ToolResult in(const std::string& database, const std::string& command, const Arguments& more = {}) {
    Arguments all{command,  "--source", source().conninfo(database), "--target", target().conninfo(database),
                  "--name", database};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all);
  }
  void create(const std::string& database, const std::string& source_sql, const std::string& target_sql = "") {
    for (auto* cluster : {&source(), &target()}) cluster->exec("create database " + database);
    source().exec(source_sql, database);
    if (!target_sql.empty()) target().exec(target_sql, database);
  }
  void succeed(const std::string& database, const std::string& command, const Arguments& more = {}) {
    const auto result = in(database, command, more);
    ASSERT_EQ(result.code, 0) << database << ": " << command << result;
  }
  void expect_equal_in(const std::string& database, const CompareOptions& options = {}) {
    EXPECT_THAT(differences(source().conninfo(database), target().conninfo(database), options), IsEmpty()) << database;
  }
  // "severity id object" of every finding.
  std::vector<std::string> findings(const std::string& database, const Arguments& more = {}) {
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
};

TEST_F(NamedShapesTest, S37_S59_ConstraintsThatOnlyTheTargetHas) {
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

TEST_F(NamedShapesTest, S33_S47_RefusedBeforeAnythingIsMade) {
  create("s47",
         "create table t (id int primary key); select count(lo_from_bytea(0, 'x')) from generate_series(1, 10000)");
  source().exec("select lo_unlink(min(oid)) from pg_largeobject_metadata", "s47");
  EXPECT_THAT(findings("s47"), Contains("blocker source.large_objects pg_largeobject"));
  const auto refused = in("s47", "clone");
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("9999 large objects"));

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

TEST_F(NamedShapesTest, S33_OtherEncodings) {
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

// --schema none: other column order, more columns, other kinds of table.
TEST_F(NamedShapesTest, TablesThatTheTargetHadBefore) {
  create(
      "own",
      "create table t (id int primary key, a text, b int, c varchar(5));"
      "create table plain (id int, k int, v text, primary key (id, k));"
      "create table parted (id int, k int, v text, primary key (id, k)) partition by list (k);"
      "create table parted_1 partition of parted for values in (1); create table parted_2 partition of parted default;"
      "create table moved (id int primary key, v text); create table no_key (a int, b text);"
      "alter table no_key replica identity full;"
      "insert into t select i, 'a' || i, i, 'c' from generate_series(1, 200) i;"
      "insert into plain select i, i % 3, 'v' from generate_series(1, 200) i; insert into parted select * from plain;"
      "insert into moved select i, 'v' from generate_series(1, 50) i; insert into no_key values (1, 'x'), (1, 'x')",
      "create table t (junk int, made timestamptz default now(), c varchar(9), b int, more text default 'own' not null,"
      "id int, g int generated always as (b * 2) stored, a text, number serial, primary key (id));"
      "alter table t drop column junk;"
      "create table plain (v text, k int, id int, primary key (id, k)) partition by hash (id);"
      "create table plain_0 partition of plain for values with (modulus 2, remainder 0);"
      "create table plain_1 partition of plain for values with (modulus 2, remainder 1);"
      "create table parted_1 (k int, v text, id int, primary key (id, k)); create table parted_2 (like parted_1 "
      "including all);"
      "create table moved (v text, id int primary key, copied bool default true);"
      "create table no_key (b text, extra int, a int)");
  EXPECT_THAT(findings("own", {"--schema", "none"}), ::testing::Not(Contains(HasSubstr("blocker"))));
  succeed("own", "clone", {"--schema", "none", "--until", "caught-up"});
  source().exec(
      "update t set a = 'live', c = 'd' where id < 10; update t set id = id + 1000 where id > 190; delete from t where "
      "id = "
      "20;"
      "insert into t select i, 'n', null, null from generate_series(2000, 2150) i; update plain set k = k + 10 where "
      "id < 9;"
      "update plain set id = id + 1000 where id between 20 and 29; delete from plain where id = 30;"
      "update parted set k = 1 where id < 20; update parted set v = 'w' where k = 1; delete from moved where id = 3;"
      "delete from no_key where ctid = (select min(ctid) from no_key); insert into no_key values (2, null);"
      "truncate plain; insert into plain values (1, 1, 'after')",
      "own");
  succeed("own", "finish");
  Session left(source().conninfo("own")), right(target().conninfo("own"));
  for (const auto* query :
       {"select id, a, b, c from t order by 1", "select id, k, v from plain order by 1, 2",
        "select id, k, v from parted_1 order by 1, 2", "select id, k, v from parted_2 order by 1, 2",
        "select id, v from moved order by 1", "select a, b from no_key order by 1"})
    EXPECT_EQ(left.query(query), right.query(query)) << query;
  EXPECT_EQ(right.scalar("select count(*) from t where more <> 'own' or made is null or number is null"), "0");
  EXPECT_EQ(right.scalar("select count(*) from t where g is distinct from b * 2"), "0");
  EXPECT_EQ(right.scalar("select count(*) from moved where not copied"), "0");

  // What cannot be filled, or would change values, is a finding.
  create(
      "unfit",
      "create table needs (id int primary key); create table types (id int primary key, a int, b numeric(10, 4), c "
      "varchar(9), d text); create table g (id int primary key, a int)",
      "create table needs (id int primary key, must int not null); create table types (id int primary key, a bigint, b "
      "numeric(10, 2), c varchar(5), d text); create table g (id int primary key, a int generated always as (id) "
      "stored)");
  const auto found = findings("unfit", {"--schema", "none"});
  EXPECT_THAT(found, Contains("blocker target.column_unfilled \"public\".\"needs\""));
  EXPECT_THAT(found, Contains("blocker target.column_type \"public\".\"types\""));
  EXPECT_THAT(found, Contains("blocker target.column_type \"public\".\"g\""));
  EXPECT_EQ(in("unfit", "clone", {"--schema", "none"}).code, 3);
}

}  // namespace
}  // namespace pgbaton::testing
