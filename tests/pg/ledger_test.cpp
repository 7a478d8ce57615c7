// The ledger guard from the outside: asked for, and taken by itself where a table cannot get a column; through the
// copy, the live stream and a backlog; tombstones that the writer keeps while somebody needs them.
#include <pgbaton/state/store.hpp>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LedgerTest : public PairTest {
 protected:
  long long ledgers() {
    return target().session().number(
        "select count(*) from pg_class where relkind = 'r' and relnamespace = to_regnamespace('pgbaton') and relname ~ "
        "'^ledger_'");
  }
  long long guard_columns() {
    return target().session().number(
        "select count(*) from pg_attribute where attname = '_pgbaton_lsn' and not attisdropped");
  }
  void expect_nothing_left() {
    EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
    EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
  }
};

// Keys that change and swap (S26), big values untouched (S27), TRUNCATE of several with the same keys again (S35),
// rows of key columns only (S36).
const std::vector<std::string> kChanges{
    "update t set id = id + 1000 where id = {0}1",
    "begin; update t set id = 9999 where id = {0}2; update t set id = {0}2 where id = {0}3; update t set id = {0}3 "
    "where "
    "id = 9999; commit",
    "begin; delete from t where id = {0}5; insert into t values ({0}5, 'again'); update t set id = {0}55 where id = "
    "{0}5; commit",
    "begin; insert into t values ({0}60, 'new'); update t set id = {0}61 where id = {0}60; delete from t where id = "
    "{0}61; commit",
    "update big set n = n + 1 where id % 3 = 0",
    "begin; update big set n = n + 1 where id = {0}4; update big set n = n + 1 where id = {0}4; update big set id = id "
    "+ "
    "500 where id = {0}4; commit",
    "update big set doc = null where id = {0}6",
    "begin; insert into a values ({0}1, 'gone'); truncate a, b restart identity; insert into a values ({0}1, 'after'); "
    "insert into b values ({0}1, 'after'); commit",
    "update a set v = 'changed' where id = {0}1",
    "begin; update k set x = x; update k set x = x + 100 where x = {0}1; delete from k where x = {0}2; commit",
    "insert into k values ({0}90, 1) on conflict do nothing",
};

void change_all(Cluster& source, const std::string& tens) {
  auto session = source.session();
  for (std::string sql : kChanges) {
    for (auto at = sql.find("{0}"); at != std::string::npos; at = sql.find("{0}")) sql.replace(at, 3, tens);
    session.exec(sql);
  }
}

TEST_F(LedgerTest, S26_S27_S35_S36_WithALedgerThroughCopyAndStream) {
  source().exec(
      "create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 99) i;"
      "create table big (id int primary key, n int not null default 0, doc jsonb); alter table big alter doc set "
      "storage "
      "external; insert into big select i, 0, to_jsonb(repeat(md5(i::text), 300)) from generate_series(1, 99) i;"
      "create table a (id int primary key, v text); create table b (id serial primary key, v text);"
      "create table k (x int, y int, primary key (x, y)); insert into k select i, i from generate_series(1, 99) i");
  create_filled("slow", 4000, 1000);
  create_marker();
  auto clone = start("clone", {"--guard", "ledger", "--follow", "--jobs", "1", "--max-rate", "2MB"});
  ASSERT_TRUE(wait_copying("slow")) << clone.err();
  change_all(source(), "1");  // above the snapshot, partly before the tables are copied
  ASSERT_TRUE(wait_for("ready")) << clone.err();
  change_all(source(), "2");
  ASSERT_TRUE(marker_arrives()) << clone.err();
  expect_equal({.exclude = {"public.marker"}});
  stop_follower(clone);
  EXPECT_EQ(guard_columns(), 0);
  EXPECT_EQ(ledgers(), 7);
  auto session = target().session();
  const auto ledger = "pgbaton." + session.scalar("select ledger from pgbaton.table_state where table_name = 't'");
  // Each entry agrees with the rows: none live without a row, none deleted with one.
  EXPECT_EQ(
      session.number("select count(*) from " + ledger + " l where deleted = exists (select from t where id = k1)"), 0);
  for (const char* tens : {"3", "4"}) change_all(source(), tens);  // a backlog, merged into batches
  expect_equal_after_drain();
  const auto guards = nlohmann::json::parse(status_field("guards"));
  EXPECT_EQ(guards["ledgers"].size(), 7u);
  EXPECT_GT(guards["ledgers"][0]["bytes"], 0);
  ASSERT_EQ(run("finish").code, 0);
  expect_nothing_left();
  expect_equal();
}

// Tables that cannot have a guard column, and why, in check, dry run and clone; the rest keeps its column.
TEST_F(LedgerTest, ByItselfWhereAColumnCannotBeAdded) {
  auto session = source().session();
  session.exec(
      "create table plain (id int primary key, v text);"
      "create table used (id int primary key, v text); create table user_of (id int primary key, u used);"
      "create type shape as (id int, v text); create table typed of shape (primary key (id));"
      "create table parent (id int primary key, v text); create table child (primary key (id)) inherits (parent);"
      "create table tree (id int primary key, v text) partition by range (id);"
      "create table tree_1 partition of tree for values from (0) to (100);"
      "create table tree_2 partition of tree for values from (100) to (1000);"
      "create table leaf_user (id int primary key, u tree_2);"
      "create table published (id int primary key, v text)");
  std::string wide, many;
  for (int i = 1; i <= 499; ++i) {
    wide += ", c" + std::to_string(i) + " uuid not null default gen_random_uuid()";
    many += ", c" + std::to_string(i) + " int";
  }
  for (int i = 500; i <= 1595; ++i) many += ", c" + std::to_string(i) + " int";
  session.exec("create table wide (id int primary key" + wide + "); create table many (id int primary key" + many +
               ")");
  for (const char* table : {"plain", "used", "typed", "parent", "child", "published"})
    session.exec(std::string("insert into ") + table + " select i, 'v' || i from generate_series(1, 20) i");
  session.exec(
      "insert into tree select i, 'v' || i from generate_series(50, 150) i; insert into wide (id) select "
      "generate_series(1, 20); insert into many (id) select generate_series(1, 20); insert into user_of values (1, (1, "
      "'x')); insert into leaf_user values (1, (101, 'x'))");
  create_marker();

  const auto plan = run("clone", {"--dry-run", "--json"});
  ASSERT_EQ(plan.code, 0) << plan;
  std::map<std::string, std::string> guards, reasons;
  const auto document = nlohmann::json::parse(plan.out);
  for (const auto& table : document["tables"]) {
    guards[table["name"]] = table["guard"];
    if (table["guard_reason"].is_string()) reasons[table["name"]] = table["guard_reason"];
  }
  for (const char* table : {"used", "typed", "parent", "child", "tree_1", "tree_2", "wide", "many"})
    EXPECT_EQ(guards[table], "ledger") << table;
  for (const char* table : {"plain", "user_of", "leaf_user", "published", "marker"})
    EXPECT_EQ(guards[table], "column") << table;
  EXPECT_THAT(reasons["used"], HasSubstr("row type"));
  EXPECT_THAT(reasons["child"], HasSubstr("inheritance"));
  EXPECT_THAT(reasons["tree_1"], HasSubstr("another partition"));
  EXPECT_THAT(reasons["wide"], HasSubstr("fill a page"));
  EXPECT_THAT(reasons["many"], HasSubstr("too many columns"));
  EXPECT_THAT(run("check", {"--json"}).out, HasSubstr("ledger: its row type is a column elsewhere"));

  clone_until_caught_up();
  EXPECT_EQ(ledgers(), 8);
  auto follower = start("follow");
  const auto change = [&] {
    session.exec(
        "update tree set id = id + 100 where id in (60, 61); delete from tree where id = 62; update tree set v = v || "
        "'.' "
        "where id > 140; insert into child values (500 + (select count(*) from child), 'n'); update child set v = 'c' "
        "where id = 1; update only parent set v = 'p' where id = 1; delete from only parent where id = 2; update used "
        "set "
        "id = -id; update typed set v = v || '.'; delete from typed where id = (select min(id) from typed); "
        "update wide set c7 = gen_random_uuid() where id < 5; update many set c1590 = coalesce(c1590, 0) + 1; "
        "delete from many where id = (select max(id) from many); update plain set v = v || '.'; "
        "insert into published select max(id) + 1, 'n' from published");
  };
  change();
  ASSERT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
  expect_equal();
  for (int i = 0; i < 3; ++i) change();
  expect_equal_after_drain();

  EXPECT_EQ(run("drop").code, 0);
  expect_nothing_left();
  expect_equal();
}

// What the target itself publishes must not show a column that its subscribers do not have. A second clone into the
// same tables also finds the ledgers of the first gone, and makes its own.
TEST_F(LedgerTest, TablesThatTheTargetPublishesAndARestart) {
  source().exec(
      "create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 50) i;"
      "create table other (id int primary key, v text)");
  create_marker();
  target().exec(
      "create table t (id int primary key, v text); create table other (id int primary key, v text);"
      "create table marker (id bigint generated always as identity primary key); create publication downstream for "
      "table t");
  clone_until_caught_up({"--schema", "none"});
  EXPECT_EQ(ledgers(), 1);
  EXPECT_EQ(guard_columns(), 2);
  source().exec("update t set v = 'w' where id < 10; delete from t where id > 40");
  expect_equal_after_drain();
  const auto first = target().scalar("select oid from pg_class where relname ~ '^ledger_[0-9]+$'");

  // A key that is another one now is not judged by the old one's entries.
  for (auto* side : {&source(), &target()})
    side->exec("alter table t alter v set not null, drop constraint t_pkey, add primary key (id, v)");
  source().exec("update t set v = 'x' where id = 1");
  const auto refused = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(refused.code, 8) << refused;
  EXPECT_THAT(refused.err, HasSubstr("was made for the key (\"id\")"));

  clone_until_caught_up({"--schema", "none", "--restart"});
  EXPECT_EQ(ledgers(), 1);
  EXPECT_NE(target().scalar("select oid from pg_class where relname ~ '^ledger_[0-9]+$'"), first);
  source().exec("delete from t where id = 1");
  expect_equal_after_drain();
  ASSERT_EQ(run("finish").code, 0);
  expect_nothing_left();
}

TEST_F(LedgerTest, TheWriterKeepsTombstonesWhileTheyAreNeeded) {
  source().exec(
      "create table t (id int primary key, v text); insert into t select i, 'v' from generate_series(1, 99) i");
  create_marker();
  clone_until_caught_up();
  pg::Endpoint endpoint{Side::target, target().conninfo(), "default"};
  const auto control = pg::open_control(endpoint, "test");
  state::Store store(*control);
  auto on_target = target().session();
  const auto tombstones = [&] { return on_target.number("select count(*) from pgbaton.tombstone"); };

  auto follower = start("follow");
  source().exec("delete from t where id = 1");
  ASSERT_TRUE(marker_arrives()) << follower.err();
  EXPECT_EQ(tombstones(), 0) << "the ordinary stream pays nothing";
  const auto hold = store.add_hold("default", {"public", "t"}, "a test of table t");
  ASSERT_TRUE(target().wait_until("select from_lsn > '0/0' from pgbaton.tombstone_hold", "t", Milliseconds(60'000)))
      << follower.err();
  source().exec(
      "delete from t where id = 2; update t set id = 1003 where id = 3; begin; insert into t values (500, 'x'); "
      "delete from t where id = 500; commit");
  ASSERT_TRUE(marker_arrives()) << follower.err();
  EXPECT_EQ(tombstones(), 3);
  EXPECT_THAT(run("status").out, HasSubstr("a test of table t"));
  stop_follower(follower);

  // Nothing that is held expires, and no retention may be shorter than the need.
  source().exec("insert into marker select from generate_series(1, 200)");
  const auto refused = run("follow", {"--until", "caught-up", "--tombstone-retention", "1kB"});
  EXPECT_EQ(refused.code, 2) << refused;
  EXPECT_THAT(refused.err, ::testing::AllOf(HasSubstr("tombstone_retention 1.0 kB"), HasSubstr("a test of table t"),
                                            HasSubstr("\"public\".\"t\"")));
  ASSERT_EQ(run("follow", {"--until", "caught-up", "--tombstone-retention", "1GB"}).code, 0);
  EXPECT_EQ(tombstones(), 3);

  // The hold ends with the stream's passing of a position; what nobody needs goes by itself.
  store.limit_hold(hold, Lsn{1});
  follower = start("follow", {"--tombstones", "always"});
  source().exec("delete from t where id = 4");
  ASSERT_TRUE(target().wait_until("select count(*) from pgbaton.tombstone_hold", "0", Milliseconds(60'000)))
      << follower.err();
  ASSERT_TRUE(
      target().wait_until("select count(*) from pgbaton.tombstone where key = '[\"4\"]'", "1", Milliseconds(60'000)));
  source().exec("insert into marker default values");
  ASSERT_TRUE(
      target().wait_until("select count(*) from pgbaton.tombstone where key <> '[\"4\"]'", "0", Milliseconds(60'000)))
      << follower.err();
  stop_follower(follower);
  expect_equal_after_drain();
}

}  // namespace
}  // namespace pgbaton::testing
