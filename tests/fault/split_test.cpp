// Big tables copied in parts (--split-above), and what a copy costs that is killed again and again.
#include <map>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SplitTest : public PairTest {
 protected:
  // About 4 MB, 4 MB, and 12 MB of which nearly all is TOAST.
  void create_tables() {
    source().exec(R"(
      create table pairs (a int, b int, n int not null default 0, pad text, primary key (a, b));
      insert into pairs select i / 100, i % 100, 0, repeat(md5(i::text), 4) from generate_series(1, 22000) i;
      create table ids (id uuid primary key, n int not null default 0, twice int generated always as (n * 2) stored,
                        pad text);
      insert into ids (id, n, pad) select md5(i::text)::uuid, i, repeat(md5(i::text), 4) from generate_series(1, 22000) i;
      create table texts (key text primary key, n int not null default 0, body text);
      alter table texts alter body set storage external;
      insert into texts select 'key ' || i, 0, repeat(md5(i::text), 180) from generate_series(1, 2000) i)");
    source().exec("vacuum analyze");
  }
  // In the middle of the tables and, with new keys, beyond what the last range began with.
  static Load::Work writer() {
    return [](Load::Turn& turn) {
      const auto id = std::to_string(turn.thread * 1'000'000 + turn.round + 100'000);
      const auto old = std::to_string(turn.round % 20'000);
      turn.session.exec(
          "begin; insert into pairs values (" + id + ", 1, 1, 'late'); update pairs set n = n + 1 where a = " + old +
          " / 100; delete from pairs where a = " + old + " / 90 and b = 7; insert into ids (id, n) " + "values (md5('" +
          id + "')::uuid, 1); update ids set n = n + 1 where id = md5('" + old +
          "')::uuid; insert into texts values ('late " + id + "', 1, repeat('z', 4000)); update texts set " +
          "n = n + 1 where key = 'key " + old + "'; commit");
      std::this_thread::sleep_for(Milliseconds(5));
    };
  }
  Arguments split(const std::string& rate) const {
    return {"--until", "caught-up", "--jobs", "3", "--split-above", "256kB", "--max-rate", rate};
  }
  // Parts of the table: planned, or those that are done.
  long long parts(const std::string& table, bool done) {
    return target().number("select count(*) from pgbaton.copy_part where table_name = '" + table + "'" +
                           (done ? " and done" : ""));
  }
  bool wait_parts(const std::string& table, int done, Tool& clone) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (clone.running() && std::chrono::steady_clock::now() < deadline) {
      if (target().scalar("select to_regclass('pgbaton.copy_part') is not null") == "t" && parts(table, true) >= done)
        return true;
      std::this_thread::sleep_for(Milliseconds(10));
    }
    return false;
  }
  std::string phase(const std::string& table) {
    return target().scalar("select phase from pgbaton.table_state where table_name = '" + table + "'");
  }
  // Tables whose boundary is not the slot's own.
  std::string taken_again() {
    return target().scalar(
        "select coalesce(string_agg(table_name, ' ' order by table_name), '') from pgbaton.table_state t join "
        "pgbaton.replica r on r.name = t.replica where t.boundary <> r.consistent_point");
  }
};

TEST_F(SplitTest, S46_NoneMissedOrDoubledAndALostBackendTakesItsPartAlone) {
  create_tables();
  Load load(source().conninfo(), 2, writer());
  ASSERT_TRUE(load.wait_done(10));
  auto clone = start("clone", split("5MB"));
  ASSERT_TRUE(wait_parts("texts", 1, clone)) << clone.wait(Milliseconds(1));
  EXPECT_GE(parts("texts", false), 15) << "TOAST counts";
  source().exec("insert into pairs select 500000 + i, 0, 0, repeat('grown', 20) from generate_series(1, 3000) i");
  source().exec("vacuum pairs; ");
  const std::string one =
      "select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ "
      "'^pgbaton/.*/copy-[0-9]+$' limit 1) x";
  EXPECT_EQ(target().number(one), 1);
  ASSERT_TRUE(wait_parts("texts", 6, clone)) << clone.wait(Milliseconds(1));
  EXPECT_EQ(source().number(one), 1);
  const auto result = clone.wait();
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.err, HasSubstr("trying again"));
  EXPECT_EQ(taken_again(), "") << "the snapshot lived on";
  EXPECT_EQ(target().number("select count(*) from pgbaton.copy_part"), 0);
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  expect_equal_after_drain();
}

TEST_F(SplitTest, S46_KilledInTheMiddleTheTableIsTakenAnewAndFinishedOnesStay) {
  create_tables();
  // In one piece, because it has one block and much TOAST, and larger than any part: copied first.
  source().exec(
      "create table finished (id int primary key, body text); alter table finished alter body set storage external; "
      "insert into finished select i, repeat(md5(i::text), 600) from generate_series(1, 60) i");
  Load load(source().conninfo(), 2, writer());
  ASSERT_TRUE(load.wait_done(10));
  auto clone = start("clone", split("3MB"));
  ASSERT_TRUE(wait_parts("texts", 1, clone)) << clone.wait(Milliseconds(1));
  ASSERT_TRUE(
      target().wait_until("select phase in ('copied', 'indexed', 'done') from pgbaton.table_state where "
                          "table_name = 'finished'",
                          "t", Milliseconds(30'000)));
  clone.kill_hard();
  EXPECT_EQ(phase("texts"), "copying");
  EXPECT_GT(target().number("select count(*) from texts"), 0) << "parts are committed one by one";
  const auto again = run("clone", split("50MB"));
  ASSERT_EQ(again.code, 0) << again;
  EXPECT_THAT(taken_again(), HasSubstr("texts"));
  EXPECT_THAT(taken_again(), Not(HasSubstr("finished")));
  EXPECT_EQ(target().number("select count(*) from pgbaton.copy_part"), 0);
  load.stop();
  expect_equal_after_drain();
}

TEST_F(SplitTest, WithoutTheSnapshotOrTheTablePartsAreDiscarded) {
  create_tables();
  auto clone = start("clone", split("4MB"));
  // Each as soon as a part of it is committed, in whatever order their turns come. DDL waits for the parts in work, and
  // the other parts wait for it.
  std::map<std::string, std::string> blows{
      {"pairs", "drop table pairs"},
      {"ids", "vacuum full ids"},
      {"texts",
       "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ "
       "'^pgbaton/.*/(copy-[0-9]+|holder)$'"}};
  ASSERT_TRUE(target().wait_until("select to_regclass('pgbaton.copy_part') is not null", "t"));
  while (!blows.empty() && clone.running())
    std::erase_if(blows, [&](const auto& blow) {
      if (phase(blow.first) != "copying" || parts(blow.first, true) == 0) return false;
      source().exec(blow.second);
      return true;
    });
  EXPECT_THAT(blows, IsEmpty());
  const auto result = clone.wait();
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_EQ(phase("pairs"), "skipped");
  EXPECT_EQ(target().number("select count(*) from pairs"), 0) << "its first parts were committed";
  EXPECT_THAT(taken_again(), HasSubstr("ids pairs texts"));
  EXPECT_EQ(target().number("select count(*) from pgbaton.copy_part"), 0);
  expect_equal_after_drain({.exclude = {"public.pairs"}});
}

// The source's own count of rows read: those of a COPY that came to nothing are in it.
TEST_F(SplitTest, KilledFiveTimesACopyCostsOneCopyAndTheTablesInWork) {
  constexpr int kTables = 15, kRows = 5'000, kJobs = 2, kKills = 5;
  for (int i = 1; i <= kTables; ++i) create_filled("t" + std::to_string(i), kRows, 200);
  const std::string read = "select sum(seq_tup_read) from pg_stat_user_tables";
  const auto before = source().number(read);
  const std::string copied =
      "select coalesce((select count(*) from pgbaton.table_state where phase in ('copied', 'indexed', 'done')), 0)";
  for (int kill = 1; kill <= kKills; ++kill) {
    auto clone = start("clone", {"--until", "caught-up", "--jobs", std::to_string(kJobs), "--max-rate", "3MB"});
    const auto wanted = std::to_string(kill * 2);
    ASSERT_TRUE(target().wait_until("select to_regclass('pgbaton.table_state') is not null", "t"));
    ASSERT_TRUE(target().wait_until("select (" + copied + ") >= " + wanted, "t", Milliseconds(60'000)));
    ASSERT_TRUE(clone.running());
    clone.kill_hard();
  }
  const auto result = run("clone", {"--until", "caught-up"});
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_EQ(target().number("select sum(rows) from pgbaton.table_state"), kTables * kRows);
  const auto rows_read = source().number(read) - before;
  const double copies = static_cast<double>(rows_read) / (kTables * kRows);
  std::cout << "killed " << kKills << " times: " << copies << " copies' worth of rows were read, where starting anew "
            << "each time had read up to " << kKills + 1 << std::endl;
  RecordProperty("copies", std::to_string(copies));
  EXPECT_GT(rows_read, kTables * kRows);
  EXPECT_LE(rows_read, kTables * kRows + kKills * kJobs * kRows);
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
