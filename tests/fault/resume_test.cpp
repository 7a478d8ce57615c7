// Killed and started again: what is finished stays, the rest is taken at a new boundary, nothing is lost or doubled.
#include <signal.h>

#include <map>

#include "support/catalog.hpp"
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ResumeTest : public PairTest {
 protected:
  static constexpr int kTables = 10;

  void create_parts() {
    for (int i = 1; i <= kTables; ++i) create_filled("part" + std::to_string(i), 6'000 - 100 * i);
  }
  // Tables whose copy is committed and whose guard is there: name → xmin of a row that no writer ever touches.
  std::map<std::string, std::string> finished() {
    std::map<std::string, std::string> result;
    auto session = target().session();
    for (int i = 1; i <= kTables; ++i) {
      const auto name = "part" + std::to_string(i);
      if (session.scalar("select count(*) from pg_attribute where attrelid = to_regclass('" + name +
                         "') and attname = '_pgbaton_lsn'") != "1") {
        continue;
      }
      const auto xmin = session.scalar("select xmin from " + name + " where id = 5000");
      if (!xmin.empty()) result[name] = xmin;
    }
    return result;
  }
  bool wait_finished(std::size_t tables, Tool& clone) {
    for (int i = 0; i < 6'000 && clone.running(); ++i) {
      if (finished().size() >= tables) return true;
      std::this_thread::sleep_for(Milliseconds(10));
    }
    return false;
  }
};

// Changes rows 1 … 4000 of all parts, inserts and deletes above 1 000 000; never the row 5000.
Load::Work part_writer() {
  return [](Load::Turn& turn) {
    const auto table = "part" + std::to_string(1 + turn.round % 10);
    const auto id = std::to_string(1'000'000 + turn.thread * 100'000'000LL + turn.round);
    turn.session.exec("begin; insert into " + table + " values (" + id + ", 1, 'new'); update " + table +
                      " set n = n + 1 where id = 1 + (random() * 3999)::int; delete from " + table +
                      " where id = " + id + " - 40; commit");
  };
}

TEST_F(ResumeTest, S10_KilledThreeTimesDuringTheCopy) {
  create_parts();
  Load load(source().conninfo(), 4, part_writer());
  ASSERT_TRUE(load.wait_done(50));
  std::map<std::string, std::string> kept;
  for (const std::size_t tables : {3, 6, 9}) {
    auto clone = start("clone", {"--until", "caught-up", "--jobs", "1", "--max-rate", "2MB"});
    ASSERT_TRUE(wait_finished(tables, clone)) << clone.wait(Milliseconds(1));
    clone.kill_hard();
    const auto now = finished();
    for (const auto& [name, xmin] : kept)
      EXPECT_EQ(now.count(name) ? now.at(name) : "", xmin) << name << " copied again";
    kept = now;
    EXPECT_GE(kept.size(), tables);
  }
  const auto result = run("clone", {"--until", "caught-up"});
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.err, Not(HasSubstr("already exists")));
  const auto now = finished();
  for (const auto& [name, xmin] : kept) EXPECT_EQ(now.count(name) ? now.at(name) : "", xmin) << name << " copied again";
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  expect_equal_after_drain();
  EXPECT_THAT(leftovers(source().conninfo()), ::testing::ElementsAre("publication pgbaton", "slot pgbaton"))
      << "no temporary slot stays";
}

TEST_F(ResumeTest, S10_KilledAtRandomMoments) {
  create_parts();
  Load load(source().conninfo(), 2, part_writer());
  ToolResult result;
  int kills = 0;
  for (int pause = 40; kills < 12; pause = pause * 3 / 2 + 20) {
    auto clone = start("clone", {"--until", "caught-up", "--jobs", "2", "--max-rate", "4MB", "--slot-wait", "20s"});
    std::this_thread::sleep_for(Milliseconds(pause));
    if (!clone.running()) {
      result = clone.wait();
      break;
    }
    clone.kill_hard();
    ++kills;
  }
  if (result.code != 0) result = run("clone", {"--until", "caught-up"});
  ASSERT_EQ(result.code, 0) << "after " << kills << " kills: " << result;
  EXPECT_GE(kills, 5);
  load.stop();
  expect_equal_after_drain();
}

#ifdef PGBATON_FAILPOINTS
// Columns that come to parents while some of their children are copied: those that are not cannot be made anew alone.
TEST_F(ResumeTest, S38_ColumnsOfParentsThatCameBetweenTwoRuns) {
  source().exec(
      "create table p (id int, r int, v text, primary key (id, r)) partition by range (r);"
      "create table p0 partition of p for values from (0) to (10);"
      "create table p1 partition of p for values from (10) to (20); create table p2 partition of p default;"
      "insert into p select i, i % 30, repeat('x', 200) from generate_series(1, 6000) i;"
      "create table parent (id int primary key, v text); create table child (primary key (id)) inherits (parent);"
      "create table grandchild (own int, primary key (id)) inherits (child);"
      "insert into parent select i, 'p' from generate_series(1, 3000) i;"
      "insert into child select i, 'c' from generate_series(1, 3000) i;"
      "insert into grandchild select i, 'g', i from generate_series(1, 3000) i");
  int round = 0;
  for (const int at : {1, 2, 3}) {
    const auto killed = run("clone", {"--jobs", "1", "--drift", "add-columns"},
                            {{"PGBATON_FAILPOINTS", "table_copied=kill@" + std::to_string(at)}});
    EXPECT_EQ(killed.code, 128 + SIGKILL) << killed;
    const auto column = "c" + std::to_string(++round);
    source().exec("alter table p add column " + column + " int default 5; alter table parent add column " + column +
                  " text default 'old'; alter table parent alter column " + column +
                  " set default 'new'; alter table child add column own_" + column + " int not null default 3");
    source().exec("insert into p (id, r, " + column + ") values (100000 + " + std::to_string(at) +
                  ", 3, 6), (100000, 1" + std::to_string(at) + ", 7); insert into grandchild (id, own) values (-" +
                  std::to_string(at) + ", 1); update child set v = 'changed' where id % 100 = " + std::to_string(at));
  }
  clone_until_caught_up({"--drift", "add-columns"});
  expect_equal();
  EXPECT_EQ(run("finish").code, 0);
  EXPECT_THAT(catalog_differences(source().conninfo(), target().conninfo()), IsEmpty());
}

// A column that is there on the target, and is another one on the source by now.
TEST_F(ResumeTest, S38_ColumnsOfParentsThatWereMadeAgainBetweenTwoRuns) {
  source().exec(
      "create table par (id int primary key, v int, w int, d1 int); create table c1 (primary key (id)) inherits (par); "
      "create table g1 (primary key (id)) inherits (c1); create table big (id int primary key, x text); "
      "insert into big select i, repeat('x', 500) from generate_series(1, 2000) i; "
      "insert into par select i, i, i, i from generate_series(1, 100) i; "
      "insert into c1 select i, i, i, i from generate_series(1, 100) i; "
      "insert into g1 select i, i, i, i from generate_series(1, 100) i");
  const auto killed =
      run("clone", {"--jobs", "1", "--drift", "add-columns"}, {{"PGBATON_FAILPOINTS", "table_copied=kill@2"}});
  EXPECT_EQ(killed.code, 128 + SIGKILL) << killed;
  source().exec(
      "alter table par drop d1; alter table par add d1 int default 12; alter table par alter v set not null; "
      "alter table par alter w type bigint; alter table c1 alter v set default 3");
  const auto resumed = run("clone", {"--drift", "add-columns", "--until", "caught-up"});
  EXPECT_EQ(resumed.code, 0) << resumed;
  EXPECT_EQ(run("verify", {"--repair"}).code, 0) << "of the table that was copied before";
  EXPECT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  expect_equal();
  EXPECT_EQ(run("finish").code, 0);
}
#endif

// A typed table takes no ALTER of its columns, not even one that has nothing to do.
TEST_F(ResumeTest, ATypedTableIsMadeAnewByRestart) {
  source().exec(
      "create type pair as (x int, y int, v text); create table typed of pair (primary key (x)); "
      "insert into typed select i, -i, 'v' from generate_series(1, 500) i");
  clone_until_caught_up({"--guard", "ledger"});
  source().exec("alter table typed drop constraint typed_pkey, add primary key (x, y)");
  const auto again = run("clone", {"--restart", "--guard", "ledger", "--until", "caught-up"});
  EXPECT_EQ(again.code, 0) << again;
  expect_equal();
}

TEST_F(ResumeTest, S13_KilledInTheMiddleOfOneBigCommit) {
  source().exec("create table t (id bigint primary key, v text)");
  create_marker();
  clone_until_caught_up();
  for (int round = 0; round < 4; ++round) {
    const auto first = std::to_string(round * 100'000 + 1), last = std::to_string(round * 100'000 + 40'000);
    auto follower = start("follow");
    ASSERT_TRUE(marker_arrives());
    source().exec("insert into t select i, md5(i::text) from generate_series(" + first + ", " + last + ") i");
    std::this_thread::sleep_for(Milliseconds(60 * round));
    follower.kill_hard();
    const auto rows = target().number("select count(*) from t where id between " + first + " and " + last);
    EXPECT_TRUE(rows == 0 || rows == 40'000) << rows << " rows: a part of a transaction is visible";
  }
  expect_equal_after_drain();
  EXPECT_EQ(target().number("select count(*) from t"), 160'000);
}

TEST_F(ResumeTest, FollowerKilledAgainAndAgainUnderLoad) {
  source().exec("create table t (id int primary key, v int not null)");
  source().exec("insert into t select i, 0 from generate_series(1, 1000) i");
  clone_until_caught_up();
  Load load(source().conninfo(), 6, [](Load::Turn& turn) {
    const auto id = std::to_string(1 + (turn.round * 7 + turn.thread * 331) % 1500);
    turn.session.exec(turn.round % 3 == 0
                          ? "delete from t where id = " + id
                          : "insert into t values (" + id + ", 1) on conflict (id) do update set v = t.v + 1");
  });
  for (int kills = 0; kills < 8; ++kills) {
    auto follower = start("follow");
    std::this_thread::sleep_for(Milliseconds(300 + 150 * kills));
    ASSERT_TRUE(follower.running()) << follower.wait();
    follower.kill_hard();
  }
  load.stop();
  expect_equal_after_drain();
}

class WriterTest : public PairTest {};

TEST_F(WriterTest, S22_SecondStartIsRefused) {
  source().exec("create table t (id int primary key)");
  create_marker();
  clone_until_caught_up();
  auto first = start("follow");
  ASSERT_TRUE(marker_arrives());
  for (const auto* command : {"follow", "clone", "finish", "drop"}) {
    const auto second = run(command);
    EXPECT_EQ(second.code, 7) << command << ": " << second;
    EXPECT_LT(second.elapsed.count(), 8'000);
    EXPECT_THAT(second.err, HasSubstr(std::to_string(first.pid()))) << "the writer is named";
  }
  EXPECT_TRUE(marker_arrives()) << "the first one is not disturbed";
  stop_follower(first);
  expect_equal();
}

// Taken over before it had copied anything: what it made belongs to the other one now.
TEST_F(WriterTest, S22_TakenOverInTheMiddleOfACloneItTakesNothingBack) {
  create_filled("t", 100);
  auto first = start("clone", {"--until", "caught-up"}, {{"PGBATON_FAILPOINTS", "slot_recorded=sleep:4000"}});
  ASSERT_TRUE(target().wait_until("select to_regclass('pgbaton.replica') is not null", "t", Milliseconds(30'000)));
  ASSERT_TRUE(target().wait_until("select phase from pgbaton.replica", "copying", Milliseconds(30'000)));
  const auto second = run("clone", {"--until", "caught-up", "--take-over"});
  EXPECT_EQ(second.code, 0) << second;
  const auto woken = first.wait(Milliseconds(60'000));
  EXPECT_EQ(woken.code, 7) << woken;
  source().exec("insert into t values (0, 0, 'later')");
  expect_equal_after_drain();
}

TEST_F(WriterTest, S22_StoppedWriterThatWakesCommitsNothing) {
  source().exec(
      "create table t (id int primary key, v int not null); insert into t select i, 0 from generate_series(1, 100) i");
  create_marker();
  clone_until_caught_up();
  Load load(source().conninfo(), 3, "update t set v = v + 1 where id = 1 + (random() * 99)::int");
  auto first = start("follow");
  ASSERT_TRUE(marker_arrives());
  first.kill(SIGSTOP);
  std::this_thread::sleep_for(Milliseconds(500));
  auto second = start("follow", {"--take-over"});
  ASSERT_TRUE(marker_arrives()) << second.err();
  first.kill(SIGCONT);
  const auto woken = first.wait(Milliseconds(30'000));
  EXPECT_EQ(woken.code, 7) << woken;
  load.stop();
  EXPECT_TRUE(marker_arrives()) << second.err();
  stop_follower(second);
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
