// Tables and values that are easy to get wrong, by both strategies; and what a refusal says.
#include "apply_fixture.hpp"

namespace pgbaton::testing {
namespace {

using apply::Strategy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RowsTest : public ApplyTest {
 protected:
  // Applies the log change by change, puts t back as keep() saw it, applies it as a batch: the same rows.
  void expect_same(const apply::TargetTable& table, const ChangeLog& log) {
    const auto each = applier(Strategy::change_by_change);
    apply_all(*each, log);
    const auto expected = rows("select t::text from only t order by 1");
    db().exec("delete from " + table.quoted + "; insert into " + table.quoted +
              " overriding system value table t_before");
    batch_ = applier();
    apply_all(*batch_, log);
    EXPECT_EQ(rows("select t::text from only t order by 1"), expected);
  }
  void keep() { db().exec("create table t_before as table t"); }
  std::unique_ptr<apply::Applier> batch_;
};

TEST_F(RowsTest, KeylessFullRowsOneAtATime) {  // S28
  db().exec(
      "create table t (a int, j json, p point, n numeric, f float8, x text);"
      "insert into t select 1, '{\"a\":  1}', '(1,2)', 1.0, '-0', null from generate_series(1, 3);"
      "insert into t select 1, '{\"a\":  1}', '(1,2)', 1.00, '0', null from generate_series(1, 2);"
      "insert into t values (null, null, null, null, null, null)");
  keep();
  const auto table = describe("t");
  ASSERT_FALSE(table.columns[1].has_equality);
  ChangeLog log;
  const Cells exact{1, "{\"a\":  1}", "(1,2)", "1.00", "0", kNull}, twin{1, "{\"a\":  1}", "(1,2)", "1.0", "-0", kNull};
  log.remove(table, 20, exact);
  log.update(table, 20, {2, "[]", kNull, "NaN", "Infinity", "x"}, twin);
  log.update(table, 20, {3, kNull, "(0,0)", kNull, kNull, ""}, {kNull, kNull, kNull, kNull, kNull, kNull});
  log.insert(table, 20, exact);
  log.insert(table, 20, twin);
  log.remove(table, 20, twin);
  expect_same(table, log);
  EXPECT_THAT(
      rows("select a, j, p, n, f, x, count(*) from (select a, j::text j, p::text p, n::text n, f::text f, x from t) s "
           "group by 1, 2, 3, 4, 5, 6 order by 1, 4"),
      ElementsAre("1|{\"a\":  1}|(1,2)|1.0|-0|∅|2", "1|{\"a\":  1}|(1,2)|1.00|0|∅|2", "2|[]|∅|NaN|Infinity|x|1",
                  "3|∅|(0,0)|∅|∅||1"));
  ChangeLog gone;
  gone.remove(table, 30, {77, kNull, kNull, kNull, kNull, kNull});
  const Error error = refusal(*batch_, gone);
  EXPECT_EQ(error.kind(), ErrorKind::rejected);
  EXPECT_THAT(error.key(), HasSubstr("(77, null"));
}

TEST_F(RowsTest, UnchangedToastSurvivesMergesAndKeyChanges) {  // S27
  db().exec(
      "create table t (id int primary key, n int, big text); insert into t select i, 0, repeat('x', 50000) || i "
      "from generate_series(1, 4) i");
  const auto table = guarded("t", {"id"});
  keep();
  ChangeLog log;
  log.update(table, 20, {1, 1, kUnchanged});
  log.update(table, 21, {1, 2, kUnchanged});
  log.update(table, 22, {11, 3, kUnchanged}, {1, kNull, kNull});
  log.update(table, 23, {11, 4, kUnchanged});
  log.update(table, 24, {2, 1, kNull});
  log.update(table, 25, {12, 2, kUnchanged}, {2, kNull, kNull});
  log.update(table, 26, {3, kUnchanged, "new"});
  log.update(table, 27, {3, 9, kUnchanged});
  expect_same(table, log);
  EXPECT_THAT(rows("select id, n, length(big), right(big, 1), _pgbaton_lsn from t order by 1"),
              ElementsAre("3|9|3|w|0/1B", "4|0|50001|4|0/1", "11|4|50001|1|0/17", "12|2|∅|∅|0/19"));
}

TEST_F(RowsTest, HardValuesArriveAsTheyAre) {  // S31
  db().exec(
      "create type mood as enum ('so la', 'o\"k'); create domain small as int check (value < 10);"
      "create domain pair as int[]; create type comp as (a int, b text); set timezone = 'UTC';"
      "create table t (id bigint primary key, i8 bigint, nu numeric, f8 float8, d date, ts timestamptz, iv interval, "
      "mo money,"
      " by bytea, bi bit(5), vb varbit, en mood, dom small, da pair, co comp, ar text[], en_ar mood[], bx box, ra "
      "int4range,"
      " mr int4multirange, js json, jb jsonb, xm xml, ip inet, uu uuid, tv tsvector, ch char(4), c1 \"char\", na name, "
      "tz timetz)");
  const auto table = guarded("t", {"id"});
  keep();
  // Written by the server itself, so that the text is exactly what a source would send.
  db().exec(
      "set extra_float_digits = 3; create table s as table t; alter table s drop _pgbaton_lsn; insert into s values "
      "(1, 9223372036854775807, 'NaN', '-0', 'infinity', '0044-03-15 12:00:00+00 BC', '-1 year 2 days -03:04:05.678', "
      "'-1.23', "
      "'\\x00ff5c', '10101', '', 'o\"k', 9, '{1,2}', row(1, 'a,\"b\"'), '[0:1]={\"a,b\",NULL}', '{\"so la\",NULL}', "
      "'(3,4),(1,2)', '[1,5)', '{[1,2),[5,7)}', '{\"a\" :  [1,  2]}', '{\"b\": 1}', '<a>&lt;</a>', '10.0.0.1/8', "
      "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '''it''s'':1A', 'ab', '\\', 'n', '24:00:00+05:30'), "
      "(-9223372036854775808, -1, 123456789012345678901234567890.000000000100, 1e-308, '-infinity', 'infinity', '0', "
      "'0', '', "
      "'00000', '1', null, null, null, row(null, ''), '{}', '{}', null, 'empty', '{}', 'null', 'null', 'a', '::1', "
      "null, '', '', "
      "'', '', null)");
  const Rows texts = db().query("select s.* from s");
  const auto cells = [&](const Row& row) {
    Cells result;
    for (const Value& value : row) result.push_back(value ? Cell(*value) : kNull);
    return result;
  };
  const auto expect_exact = [&](const std::string& lsn) {
    EXPECT_THAT(rows("select s::text from (select s.*, '" + lsn + "'::pg_lsn from s) s except select t::text from t"),
                IsEmpty());
  };
  ChangeLog inserts, updates, copies;
  for (const Row& row : texts) {
    inserts.insert(table, 20, cells(row));
    updates.update(table, 30, cells(row));
  }
  expect_same(table, inserts);
  expect_exact("0/14");
  db().exec(
      "update t set (i8, nu, f8, en, dom, da, co, ar, en_ar, bx, js, jb, vb) = "
      "(0, 0, 0, null, 1, '{}', null, null, null, null, '1', '1', '0')");
  apply_all(*batch_, updates);
  expect_exact("0/1E");
  db().exec("delete from t");
  for (int i = 0; i < 120; ++i) {  // enough for COPY
    Row row = texts[static_cast<std::size_t>(i) % texts.size()];
    if (i >= 2) row[0] = std::to_string(i + 10);
    copies.insert(table, 40, cells(row));
  }
  apply_all(*batch_, copies);
  expect_exact("0/28");
  EXPECT_EQ(db().number("select count(*) from t"), 120);
  EXPECT_EQ(batch_->counters().fallbacks, 0);
}

TEST_F(RowsTest, KeysEqualOnlyForTheTarget) {
  db().exec("create table t (k numeric primary key, v text); insert into t values (1.0, 'a'), (2.0, 'b')");
  const auto table = guarded("t", {"k"});
  keep();
  ChangeLog log;
  log.update(table, 20, {"1.00", "a2"}, {"1.0", kNull});
  log.update(table, 21, {"1.000", "a3"}, {"1.00", kNull});
  log.remove(table, 22, {"2.0", kNull});
  log.insert(table, 23, {"2.00", "b2"});
  expect_same(table, log);
  EXPECT_THAT(rows("select k, v from t order by k"), ElementsAre("1.000|a3", "2.00|b2"));
  ChangeLog twice;
  twice.insert(table, 30, {"3.0", "x"});
  twice.insert(table, 31, {"3.00", "y"});
  const Error error = refusal(*batch_, twice);
  EXPECT_EQ(error.key(), "(k)=(3.00)");
  EXPECT_EQ(error.lsn(), Lsn{31});
}

TEST_F(RowsTest, ExtensionTypesUseTheirOwnOperators) {
  db().exec(
      "create schema ext; create extension citext schema ext; create extension hstore schema ext;"
      "create table t (k ext.citext primary key, h ext.hstore); insert into t values ('Ab', 'a=>1'), ('cd', 'b=>2')");
  const auto table = guarded("t", {"k"});
  keep();
  ChangeLog log;
  log.update(table, 20, {"AB", "\"a\"=>\"2\""}, {"Ab", kNull});
  log.update(table, 21, {"cd", kNull});
  log.insert(table, 22, {"x,y", "\"q\"=>NULL"});
  expect_same(table, log);
  EXPECT_THAT(rows("select k, h from t order by k"), ElementsAre("AB|\"a\"=>\"2\"", "cd|∅", "x,y|\"q\"=>NULL"));
  EXPECT_EQ(batch_->counters().fallbacks, 0);
  // Two source rows that are one for the target: refused, not merged.
  ChangeLog twins;
  twins.insert(table, 30, {"n", kNull});
  twins.insert(table, 31, {"N", kNull});
  EXPECT_EQ(refusal(*batch_, twins).key(), "(k)=(N)");
}

TEST_F(RowsTest, AFallbackOfManyRowsEndsInOrder) {
  db().exec(
      "create table t (id int primary key, u int unique); insert into t select i, i from generate_series(1, 3000) i");
  const auto table = guarded("t", {"id"});
  ChangeLog log;
  log.update(table, 20, {1, 0});
  for (int i = 2; i <= 3000; ++i) log.update(table, 20, {i, i - 1});
  log.update(table, 20, {1, 3000});
  const auto applier = this->applier();
  apply_all(*applier, log);
  EXPECT_EQ(db().number("select count(*) from t where u = (id + 2998) % 3000 + 1"), 3000);
  EXPECT_EQ(applier->counters().fallbacks, 1);
  EXPECT_EQ(applier->counters().rows_written, 3001);
}

TEST_F(RowsTest, UniqueValuesThatRotateFallBackAndPass) {
  db().exec("create table t (id int primary key, u int unique); insert into t values (1, 1), (2, 2), (3, 3)");
  const auto table = guarded("t", {"id"});
  keep();
  ChangeLog log;
  log.update(table, 20, {1, 99});
  log.update(table, 20, {2, 1});
  log.update(table, 20, {1, 2});
  log.remove(table, 21, {3, kNull});
  log.insert(table, 21, {4, 3});
  expect_same(table, log);
  EXPECT_THAT(rows("select id, u from t order by 1"), ElementsAre("1|2", "2|1", "4|3"));
}

TEST_F(RowsTest, AViolationNamesConstraintKeyAndLsn) {  // S37
  db().exec("create table t (id int primary key, u int constraint only_here unique); insert into t values (1, 1)");
  const auto table = guarded("t", {"id"});
  ChangeLog log;
  log.insert(table, 20, {2, 2});
  log.insert(table, 30, {3, 1});
  for (const Strategy strategy : {Strategy::batch, Strategy::change_by_change}) {
    const auto applier = this->applier(strategy);
    const Error error = refusal(*applier, log);
    EXPECT_EQ(error.kind(), ErrorKind::rejected);
    EXPECT_EQ(error.side(), Side::target);
    EXPECT_EQ(error.sqlstate(), "23505");
    EXPECT_THAT(error.message(), HasSubstr("only_here"));
    EXPECT_EQ(error.table(), R"("public"."t")");
    EXPECT_EQ(error.key(), "(id)=(3)");
    EXPECT_EQ(error.lsn(), Lsn{30});
    EXPECT_FALSE(error.hint().empty());
  }
  db().exec("alter table t drop constraint only_here");
  apply_all(*applier(), log);
  EXPECT_EQ(db().number("select count(*) from t"), 3);
}

TEST_F(RowsTest, MissingAndForeignRowsAreNamed) {
  db().exec("create table t (id int primary key, v text); insert into t values (1, 'a'), (5, 'by hand')");
  const auto table = guarded("t", {"id"});
  const auto refused = [&](auto&& build) {
    ChangeLog log;
    log.update(table, 20, {1, "fine"});
    build(log);
    const auto applier = this->applier();
    const Error error = refusal(*applier, log);
    EXPECT_EQ(error.kind(), ErrorKind::rejected) << error.describe();
    EXPECT_EQ(error.lsn(), Lsn{30});
    return error.key() + " " + error.message();
  };
  EXPECT_THAT(refused([&](ChangeLog& l) {
                l.update(table, 30, {2, "x"});
              }),
              HasSubstr("(id)=(2) the row that the source updated"));
  EXPECT_THAT(refused([&](ChangeLog& l) {
                l.remove(table, 30, {3, kNull});
              }),
              HasSubstr("(id)=(3) the row that the source deleted"));
  EXPECT_THAT(refused([&](ChangeLog& l) {
                l.update(table, 30, {4, "x"}, {9, kNull});
              }),
              HasSubstr("(id)=(9) the row that"));
  EXPECT_THAT(refused([&](ChangeLog& l) {
                l.insert(table, 30, {5, "x"});
              }),
              HasSubstr("(id)=(5) a row with this key is already"));
  EXPECT_THAT(rows("select id, v from t order by 1"), ElementsAre("1|a", "5|by hand"));
}

TEST_F(RowsTest, OnlyKeyColumnsAndNoGuard) {  // S36
  db().exec("create table t (a int, b text, primary key (a, b)); insert into t values (1, 'x'), (2, 'y')");
  auto table = guarded("t", {"a", "b"});
  keep();
  ChangeLog log;
  log.update(table, 20, {1, "x"});
  log.update(table, 21, {3, "z"}, {2, "y"});
  log.insert(table, 22, {4, ""});
  expect_same(table, log);
  EXPECT_THAT(rows("select * from t order by 1"), ElementsAre("1|x|0/14", "3|z|0/15", "4||0/16"));
  db().exec("alter table t drop _pgbaton_lsn");
  table = describe("t", {"a", "b"});
  ChangeLog more;
  more.update(table, 30, {1, "x"});
  more.remove(table, 31, {3, "z"});
  more.insert(table, 32, {5, "n"});
  apply_all(*batch_, more);
  EXPECT_THAT(rows("select * from t order by 1"), ElementsAre("1|x", "4|", "5|n"));
}

TEST_F(RowsTest, IdentityAlwaysAndGeneratedColumns) {  // S30
  db().exec(
      "create table t (g int generated always as (n * 2) stored, id int primary key generated always as identity, n "
      "int,"
      " extra int generated always as identity); insert into t (n) values (1), (2), (3)");
  const auto table = guarded("t", {"id"});
  ASSERT_EQ(table.columns.size(), 3u);
  db().exec("create table t_before as select id, n, extra, _pgbaton_lsn from t");
  ChangeLog log;
  log.insert(table, 20, {70, 7, 700});
  log.update(table, 21, {1, 10, 1});
  log.update(table, 22, {2, 20, 222});  // the identity changed: deleted and inserted
  log.update(table, 23, {33, kUnchanged, 3}, {3, kNull, kNull});
  log.remove(table, 24, {1, kNull, kNull});
  log.insert(table, 24, {1, 11, 111});
  const auto each = applier(Strategy::change_by_change), batch = applier();
  const auto expected = ElementsAre("1|11|111|22|0/18", "2|20|222|40|0/16", "33|3|3|6|0/17", "70|7|700|14|0/14");
  apply_all(*each, log);
  EXPECT_THAT(rows("select id, n, extra, g, _pgbaton_lsn from t order by 1"), expected);
  db().exec("delete from t; insert into t (id, n, extra, _pgbaton_lsn) overriding system value table t_before");
  apply_all(*batch, log);
  EXPECT_THAT(rows("select id, n, extra, g, _pgbaton_lsn from t order by 1"), expected);
}

TEST_F(RowsTest, PartitionedAndInheritedTables) {  // S34
  db().exec(
      "create table p (id int primary key, v text) partition by range (id);"
      "create table p1 partition of p for values from (0) to (10);"
      "create table p2 partition of p for values from (10) to (20);"
      "create table parent (id int primary key, v text); create table child (primary key (id)) inherits (parent)");
  const auto p = guarded("p", {"id"}), parent = guarded("parent", {"id"});
  db().exec("insert into child values (1, 'child', '0/1'); insert into parent values (1, 'parent', '0/1')");
  ChangeLog log;
  log.insert(p, 20, {1, "a"});
  log.insert(p, 20, {11, "b"});
  log.update(parent, 20, {1, "parent2"});
  ChangeLog more;
  more.update(p, 30, {12, "moved"}, {1, kNull});
  more.remove(p, 30, {11, kNull});
  more.remove(parent, 30, {1, kNull});
  const auto applier = this->applier();
  apply_all(*applier, log);
  apply_all(*applier, more);
  EXPECT_THAT(rows("select tableoid::regclass, id, v from p"), ElementsAre("p2|12|moved"));
  EXPECT_THAT(rows("select id, v from parent"), ElementsAre("1|child"));
  EXPECT_EQ(applier->counters().fallbacks, 0);
  ChangeLog empty;
  empty.truncate(40, {&p, &parent});
  apply_all(*applier, empty);
  EXPECT_EQ(db().number("select count(*) from p"), 0);
  EXPECT_EQ(db().number("select count(*) from child"), 1);
}

TEST_F(RowsTest, TruncateKeepsItsPlaceAndRestartsIdentity) {  // S35
  db().exec(
      "create table a (id int primary key generated by default as identity, v text);"
      "create table b (id int primary key, a int references a); create table outside (b int references b);"
      "insert into a (v) values ('x'), ('y'); insert into b values (1, 1); insert into outside values (1);"
      "insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid) "
      "values ('r', 'g', 'public', 'a', 1)");
  const auto a = guarded("a", {"id"}), b = guarded("b", {"id"});
  ChangeLog log;
  log.insert(a, 20, {3, "gone"});
  log.truncate(20, {&a, &b}, true);  // blocked by a foreign key from a third table: emptied by DELETE
  log.insert(a, 20, {3, "again"});
  const auto applier = this->applier();
  apply_all(*applier, log);
  EXPECT_THAT(rows("select id, v, _pgbaton_lsn from a"), ElementsAre("3|again|0/14"));
  EXPECT_EQ(db().number("select count(*) from b"), 0);
  EXPECT_EQ(db().scalar("select floor_lsn from pgbaton.table_state"), "0/14");
  EXPECT_EQ(db().scalar("insert into a (v) values ('next') returning id"), "1");
  db().exec("drop table outside");
  ChangeLog more;
  more.truncate(30, {&a, &b});
  apply_all(*applier, more);
  EXPECT_EQ(db().number("select count(*) from a"), 0);
  EXPECT_EQ(applier->counters().fallbacks, 0);
}

TEST_F(RowsTest, ManyRowsAcrossStatementsAndCopy) {
  db().exec("create table t (id int primary key, v text)");
  const auto table = guarded("t", {"id"});
  const std::string wide(3000, 'w');
  ChangeLog first, second, third;
  for (int i = 2500; i > 0; --i) first.insert(table, 20, {i, wide});
  for (int i = 1; i <= 2500; ++i) second.update(table, 30, {i, i % 2 == 0 ? Cell("even") : kUnchanged});
  for (int i = 1; i <= 2500; ++i) third.remove(table, 40, {i, kNull});
  const auto applier = this->applier();
  apply_all(*applier, first);
  EXPECT_EQ(db().number("select count(*) from t where length(v) = 3000"), 2500);
  apply_all(*applier, second);
  EXPECT_THAT(rows("select v = 'even', count(*), min(_pgbaton_lsn) from t group by 1 order by 1"),
              ElementsAre("f|1250|0/1E", "t|1250|0/1E"));
  apply_all(*applier, third);
  EXPECT_EQ(db().number("select count(*) from t"), 0);
  EXPECT_EQ(applier->counters().fallbacks, 0);
  EXPECT_EQ(applier->counters().rows_written, 7500);
}

TEST_F(RowsTest, DriftIsRejectedByName) {
  db().exec("create table t (id int primary key, v text)");
  const auto table = guarded("t", {"id"});
  ChangeLog log;
  log.insert(table, 20, {1, "a"});
  const auto applier = this->applier();
  db().exec("alter table t drop v");
  const Error column = refusal(*applier, log);
  EXPECT_EQ(column.kind(), ErrorKind::rejected);
  EXPECT_THAT(column.describe(), HasSubstr("\"public\".\"t\""));
  db().exec("drop table t");
  EXPECT_EQ(refusal(*applier, log).kind(), ErrorKind::rejected);
}

}  // namespace
}  // namespace pgbaton::testing
