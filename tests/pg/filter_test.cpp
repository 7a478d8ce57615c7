// What is carried and what is not (S45): column lists, row filters, excluded tables and data, foreign keys across.
#include <fstream>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class FilterTest : public PairTest {
 protected:
  std::string config(const std::string& text) {
    const auto path = "/tmp/pgbaton-filter-" + std::to_string(::getpid()) + ".yaml";
    std::ofstream(path) << text;
    return path;
  }
  // The chosen columns and rows, the same on both sides.
  void expect_same(const std::string& table, const std::string& columns, const std::string& where) {
    const auto read = "select string_agg(r::text, e'\\n' order by r::text) from (select " + columns + " from " + table;
    EXPECT_EQ(source().scalar(read + " where " + where + ") r"), target().scalar(read + ") r")) << table;
  }
};

TEST_F(FilterTest, S45_ColumnListsAndRowFiltersInCopyAndStream) {
  source().exec(
      "create table t (id int, region text, v text, secret text default 'none', big text, primary key (id, region)); "
      "alter table t alter big set storage external; "
      "insert into t select i, case when i % 2 = 0 then 'eu' else 'us' end, 'v', 's' || i, repeat('b', 5000) "
      "from generate_series(1, 100) i; "
      "create table c (id int primary key, \"A b\" text, hidden text, g int generated always as (id * 2) stored); "
      "insert into c (id, \"A b\", hidden) select i, 'x', 'h' from generate_series(1, 10) i; "
      "create table log (at int, what text); insert into log select i, 'w' from generate_series(1, 10) i; "
      "create table p (id int, d int, x text, primary key (id, d)) partition by list (d); "
      "create table p1 partition of p for values in (1); create table p2 partition of p for values in (2); "
      "insert into p select i, 1 + i % 2, 'x' from generate_series(1, 20) i; "
      "create table all_of_it (id int primary key, v text); insert into all_of_it values (1, 'v')");
  const auto file = config(
      "tables:\n"
      "  - name: public.t\n    columns: [id, region, v, big]\n    where: region = 'eu' and id < 1000\n"
      "  - {name: c, columns: [id, '\"A b\"']}\n"
      "  - {name: public.log, where: at > 5}\n"
      "  - {name: p, where: id % 2 = 0}\n");
  const auto cloned = run("clone", {"--until", "caught-up", "--config", file});
  ASSERT_EQ(cloned.code, 0) << cloned;
  const auto expect_all = [&] {
    expect_same("t", "id, region, v, md5(big)", "region = 'eu' and id < 1000");
    expect_same("c", "id, \"A b\", g", "true");
    expect_same("log", "at, what", "at > 5");
    expect_same("p", "id, d, x", "id % 2 = 0");
    expect_same("all_of_it", "id, v", "true");
  };
  expect_all();
  EXPECT_EQ(target().number("select count(*) from t"), 50);
  EXPECT_EQ(target().number("select count(*) from t where secret <> 'none'"), 0);
  EXPECT_EQ(target().number("select count(*) from c where hidden is not null"), 0);
  source().exec(
      "update t set region = 'us' where id in (2, 4); update t set region = 'eu' where id in (1, 3); "  // out and in
      "update t set v = 'changed', secret = 'x' where id < 20; update t set id = id + 1000 where id = 50; "
      "delete from t where id in (6, 7); insert into t values (200, 'eu', 'n', 's', 'b'), (201, 'us', 'n', 's', 'b'); "
      "update c set hidden = 'changed' where id < 3; update c set \"A b\" = 'y' where id = 4; delete from c where id = "
      "5; "
      "insert into c (id, \"A b\", hidden) values (11, 'n', 'n'); insert into log values (3, 'no'), (30, 'yes'); "
      "insert into p values (21, 1, 'no'), (22, 1, 'yes'); update p set d = 2 where id = 4; "
      "update all_of_it set v = 'w'");
  // In, and gone or elsewhere before the row can be asked for: its big value never came.
  source().exec(
      "update t set region = 'eu' where id = 9; delete from t where id = 9; "
      "update t set region = 'eu' where id = 11; update t set id = 911 where id = 11; "
      "update t set region = 'eu' where id = 13; update t set v = 'later' where id = 13; "
      "update t set region = 'eu' where id = 15; update t set region = 'us' where id = 15; "
      "update t set region = 'eu', v = 'back' where id = 15");
  const auto followed = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(followed.code, 0) << followed;
  expect_all();

  // What is not carried is no difference; what is carried and differs is one, and nothing else is repaired.
  const auto same = run("verify");
  EXPECT_EQ(same.code, 0) << same;
  target().exec(
      "update c set \"A b\" = 'lost', hidden = 'own' where id = 3; delete from t where id = 10; "
      "insert into p values (1, 2, 'x')");
  const auto differ = run("verify");
  EXPECT_EQ(differ.code, 6) << differ;
  const auto mended =
      run("verify", {"--repair", "--include-table", "t", "--include-table", "c", "--include-table", "p"});
  EXPECT_EQ(mended.code, 0) << mended;
  EXPECT_THAT(mended.out, HasSubstr("3"));
  expect_all();
  EXPECT_EQ(target().scalar("select hidden from c where id = 3"), "own");

  const auto other = run("clone", {"--config", config("tables:\n  - {name: c, where: id > 3}\n")});
  EXPECT_EQ(other.code, 2) << other;
  EXPECT_THAT(other.err, HasSubstr("tables was"));
}

TEST_F(FilterTest, S45_ChoicesThatCannotWorkAreRefused) {
  source().exec(
      "create table t (id int primary key, v text, n int not null); insert into t values (1, 'v', 1); "
      "create table f (id int primary key, v text); alter table f replica identity full; "
      "create table nokey (id int, v text); create function own(int) returns bool language sql immutable as 'select "
      "true'");
  const std::vector<std::pair<std::string, Arguments>> kAllThatLook{
      {"check", {}}, {"clone", {"--dry-run"}}, {"clone", {}}};
  const std::vector<std::tuple<std::string, int, std::string>> refused{
      {"  - {name: nowhere, where: 'true'}\n", 2, "\"public\".\"nowhere\" matches no table"},
      {"  - {name: t, columns: [id, w]}\n", 2, "there is no column \"w\""},
      {"  - {name: t, columns: [v, n]}\n", 2, "column \"id\" of the identity"},
      {"  - {name: t, columns: [id, v]}\n", 2, "column \"n\", which is NOT NULL"},
      {"  - {name: f, columns: [id]}\n", 2, "REPLICA IDENTITY FULL"},
      {"  - {name: t, where: v = 'x'}\n", 3, "would make UPDATE and DELETE fail"},
      {"  - {name: t, where: nonsense >}\n", 3, "syntax error"},
      {"  - {name: t, where: nonsense > 1}\n", 3, "\"nonsense\" does not exist"},
      {"  - {name: t, where: id + 1}\n", 3, "must be type boolean"},
      {"  - {name: t, where: id > 'x'}\n", 3, "invalid input syntax"},
      {"  - {name: t, where: id in (select 1)}\n", 3, "invalid publication WHERE expression"},
      {"  - {name: t, where: id > random()}\n", 3, "mutable functions"},
      {"  - {name: t, where: count(*) > 1}\n", 3, "aggregate functions"},
      {"  - {name: t, where: own(id)}\n", 3, "WHERE"},
      {"  - {name: nokey, where: v > id}\n", 3, "operator does not exist"},
      {"  - {name: t}\n", 2, "needs a name, and columns or where"},
      {"  - {name: t, colums: [id]}\n", 2, "colums"},
  };
  for (const auto& [text, code, says] : refused) {
    SCOPED_TRACE(text);
    const auto file = config("tables:\n" + text);
    for (const auto& [command, more] : kAllThatLook) {
      auto arguments = more;
      arguments.insert(arguments.end(), {"--config", file});
      const auto result = run(command, arguments);
      EXPECT_EQ(result.code, code) << result;
      EXPECT_THAT(result.out + result.err, HasSubstr(says)) << result;
      if (code == 3 && command == "check") {
        EXPECT_THAT(result.out, HasSubstr("table.choice")) << result;
      }
    }
    EXPECT_THAT(leftovers(source().conninfo()), ::testing::IsEmpty());
  }
  // All of them at once; those that work are no findings, and while DDL holds a table nothing is known of it.
  const auto file = config(
      "tables:\n  - {name: t, where: v = 'x'}\n  - {name: nokey, where: v = 'x'}\n"
      "  - name: f\n    where: |\n      v = 'x' or\n      v = 'y'\n");
  const auto named = run("check", {"--config", file});
  EXPECT_EQ(named.code, 3) << named;
  EXPECT_THAT(named.out, HasSubstr("\"public\".\"t\""));
  EXPECT_THAT(named.out, ::testing::Not(HasSubstr("table.choice  \"public\".\"nokey\""))) << named;
  EXPECT_THAT(named.out, ::testing::Not(HasSubstr("table.choice  \"public\".\"f\""))) << named;
  {
    auto ddl = source().session();
    ddl.exec("begin; lock table f in share mode");
    EXPECT_THAT(run("check", {"--config", file}).out, HasSubstr("table.choice_untried"));
    ddl.exec("rollback");
  }
  source().exec("update t set v = 'w'; delete from t");
}

TEST_F(FilterTest, S45_ExcludedTablesAndData) {
  source().exec(
      "create schema \"Audit\"; create table \"Audit\".log (id int primary key); "
      "create table kept (id int primary key, a int, e int); "
      "create table empty (id int primary key); create table skipped_one (id int primary key); "
      "create table skipped_two (id int primary key); "
      "insert into \"Audit\".log values (1); insert into empty values (1); insert into skipped_one values (1); "
      "insert into kept values (1, 1, 1); alter table kept add constraint to_audit foreign key (a) references "
      "\"Audit\".log, add constraint to_empty foreign key (e) references empty");
  const Arguments filter{"--exclude-schema", "\"Audit\"",      "--exclude-table",
                         "public.skipped_*", "--exclude-data", "public.empty"};
  auto all = filter;
  all.insert(all.end(), {"--until", "caught-up"});
  const auto cloned = run("clone", all);
  ASSERT_EQ(cloned.code, 0) << cloned;
  EXPECT_THAT(cloned.err, HasSubstr("to_audit"));
  EXPECT_THAT(cloned.err, HasSubstr("to_empty"));
  EXPECT_THAT(cloned.err, HasSubstr("VALIDATE CONSTRAINT"));
  source().exec(
      "insert into \"Audit\".log values (2); insert into empty values (2); insert into skipped_two values (1); "
      "insert into kept values (2, 2, 2); delete from kept where id = 1; truncate skipped_one");
  const auto followed = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(followed.code, 0) << followed;
  EXPECT_EQ(target().scalar("select string_agg(relname, ',' order by relname) from pg_class where relkind = 'r' and "
                            "relnamespace::regnamespace::text in ('public', '\"Audit\"')"),
            "empty,kept");
  EXPECT_EQ(target().scalar("select string_agg(id::text, ',') from kept"), "2");
  EXPECT_EQ(target().number("select count(*) from empty"), 0);
  EXPECT_EQ(target().scalar("select string_agg(conname || convalidated, ',') from pg_constraint where contype = 'f'"),
            "to_emptyfalse");
  for (const auto* option :
       {"--include-table", "--exclude-table", "--include-schema", "--exclude-schema", "--exclude-data"}) {
    const auto nothing = run("clone", {"--name", "other", option, "nothing_of_that_name"});
    EXPECT_EQ(nothing.code, 2) << nothing;
    EXPECT_THAT(nothing.err, HasSubstr("matches no"));
  }
}

}  // namespace
}  // namespace pgbaton::testing
