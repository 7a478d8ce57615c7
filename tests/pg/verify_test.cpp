// verify through the executable, beside a running follower and without one, under load. What must be found is made by
// hand on the target; that nothing else is found is the other half of each test.
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using Json = nlohmann::json;
using ::testing::IsEmpty;

class VerifyTest : public PairTest {
 protected:
  struct Found {
    ToolResult result;
    Json report;
  };
  Found verify(const Arguments& more = {}, const Environment& environment = {}) {
    Arguments all{"--json"};
    all.insert(all.end(), more.begin(), more.end());
    Found found;
    found.result = run("verify", all, environment, Milliseconds(150'000));
    found.report = Json::parse(found.result.out, nullptr, false);
    if (!found.report.is_object()) found.report = Json::object();
    return found;
  }
  // "table kind key: columns", sorted.
  static std::multiset<std::string> lines(const Json& report) {
    std::multiset<std::string> result;
    for (const auto& d : report.value("differences", Json::array())) {
      std::string line = d.at("table").get<std::string>() + " " + d.at("kind").get<std::string>();
      const auto& key = d.at("key").is_null() ? d.at("row") : d.at("key");
      for (const auto& value : key) line += " " + (value.is_null() ? "NULL" : value.get<std::string>());
      if (d.contains("count")) line += " x" + std::to_string(d.at("count").get<int>());
      for (const auto& column : d.at("columns")) line += " ." + column.get<std::string>();
      result.insert(line);
    }
    return result;
  }
  using Lines = std::multiset<std::string>;
  static Lines lacking(const Lines& whole, const Lines& part) {
    Lines result;
    std::set_difference(whole.begin(), whole.end(), part.begin(), part.end(), std::inserter(result, result.end()));
    return result;
  }
  void expect_equal_now(const Arguments& more = {}) {
    const auto found = verify(more);
    EXPECT_EQ(found.result.code, 0) << found.result;
    EXPECT_EQ(found.report.value("differences_total", -1), 0);
  }
  // Changes on the target that the stream knows nothing of.
  void tamper(const std::string& sql) { target().exec("set session_replication_role = replica; " + sql); }
};

constexpr const char* kShapes = R"(
create table account (id int primary key, balance bigint not null default 0, note text);
insert into account select i, 0, 'note ' || i from generate_series(1, 5000) i;
create table two (a int, "B b" text, v numeric, u int unique, primary key ("B b", a));
insert into two select i, 'k' || i, i / 7.0, i from generate_series(1, 200) i;
create table log (at int, what text, j json);
alter table log replica identity full;
insert into log select i % 10, nullif('w' || i % 10, 'w3'), '{"x": 1}' from generate_series(1, 100) i;
create table inserts (a int, b text);
insert into inserts select i, 'x' from generate_series(1, 20) i;
create table part (id int, r int, v text, primary key (id, r)) partition by range (r);
create table part_low partition of part for values from (0) to (10);
create table part_high partition of part for values from (10) to (20);
insert into part select i, i % 20, 'v' from generate_series(1, 200) i;
create table ident (id int generated always as identity primary key, v text, n int generated always as (length(v)) stored,
                    gone int);
alter table ident drop column gone;
insert into ident (v) select repeat('v', i % 9) from generate_series(1, 50) i;
create type mood as enum ('a', 'b');
create table typed (id uuid primary key, c "char", f float8, t timestamptz, m mood, ms mood[], b bytea, x char(9), ok bool,
                    big text);
insert into typed values (md5('1')::uuid, 'c', 'NaN', '2026-01-01 00:00+02', 'a', '{a,b}', '\x00ff', 'x', true,
                          (select string_agg(md5(i::text), '') from generate_series(1, 500) i)),
                         (md5('2')::uuid, null, '-0', 'infinity', null, null, null, null, null, null);
create table columnless ();
create unlogged table scratch (id int primary key);
insert into scratch values (1);
)";

TEST_F(VerifyTest, S49_FindsExactlyWhatWasTamperedWithAndRepairsItUnderLoad) {
  source().exec(kShapes);
  create_marker();
  auto follower = start("clone", {"--follow", "--keyless", "insert-only"});
  ASSERT_TRUE(wait_for("ready")) << follower.err();
  // About 200 transactions/s, on the rows that are left alone.
  Load load(source().conninfo(), 4, [](Load::Turn& turn) {
    const auto id = std::to_string(1 + turn.thread * 500 + turn.round % 500);
    turn.session.exec("update account set balance = balance + 1 where id = " + id + "; select pg_sleep(0.018)");
    if (turn.round % 10 == 0) turn.session.exec("insert into log values (11, 'live', null)");
  });
  expect_equal_now();

  tamper("update account set note = 'tampered' where id = 4001");
  auto found = verify();
  EXPECT_EQ(found.result.code, 6) << found.result;
  EXPECT_EQ(lines(found.report), (std::multiset<std::string>{"account different 4001 .note"}));
  EXPECT_EQ(found.report.at("not_compared").size(), 1u) << found.report;  // the unlogged table

  tamper("delete from account where id = 4002");
  found = verify();
  EXPECT_EQ(lines(found.report), (std::multiset<std::string>{"account different 4001 .note", "account missing 4002"}));
  EXPECT_LT(found.report.at("pause_ms").get<int>(), 2500);

  found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 0) << found.result;
  EXPECT_EQ(found.report.at("repaired"), 2);
  EXPECT_EQ(found.report.at("remaining"), 0);
  EXPECT_EQ(found.report.at("differences_total"), 2);
  // Right guards: at the cut of the repair, so that the next change of the row is applied.
  EXPECT_EQ(target().scalar("select bool_and(_pgbaton_lsn > '" + found.report.at("cut_lsn").get<std::string>() +
                            "') from account where id in (4001, 4002)"),
            "t");
  source().exec("update account set note = 'next' where id in (4001, 4002)");
  EXPECT_TRUE(target().wait_until("select count(*) from account where note = 'next'", "2", Milliseconds(30'000)));

  // A hundred and more, of every kind.
  tamper(R"(
update account set balance = -1, note = null where id between 4100 and 4129;
delete from account where id between 4130 and 4159;
insert into account (id, note) select i, 'extra' from generate_series(9001, 9020) i;
update account set id = id + 10000 where id between 4200 and 4209;
update two set u = -1 where u = 5;
update two set u = 5 where u = 6;
update two set u = 6 where u = -1;
update two set v = '5.0' where a = 35;
update log set what = 'W' where ctid in (select ctid from log where at = 4 limit 2);
insert into log select * from log where at = 5 limit 1;
insert into inserts values (7, 'x'), (77, null);
update part set v = 'w' where id = 15;
delete from part where id = 3;
update ident set v = 'other' where id = 7;
update typed set f = '0', x = 'y', c = null, big = big || ' ' where m = 'a';
update typed set f = '0' where m is null;
insert into columnless default values;
)");
  found = verify();
  EXPECT_EQ(found.result.code, 6) << found.result;
  std::multiset<std::string> due;
  for (int i = 4100; i < 4130; ++i) due.insert("account different " + std::to_string(i) + " .balance .note");
  for (int i = 4130; i < 4160; ++i) due.insert("account missing " + std::to_string(i));
  for (int i = 9001; i < 9021; ++i) due.insert("account extra " + std::to_string(i));
  for (int i = 4200; i < 4210; ++i) {
    due.insert("account missing " + std::to_string(i));
    due.insert("account extra " + std::to_string(i + 10000));
  }
  for (const char* line :
       {"two different k5 5 .u", "two different k6 6 .u", "two different k35 35 .v", "log missing 4 {\"x\": 1} w4 x2",
        "log extra 4 {\"x\": 1} W x2", "log extra 5 {\"x\": 1} w5 x1", "inserts extra 7 x x1",
        "inserts extra 77 NULL x1", "part_high different 15 15 .v", "part_low missing 3 3", "ident different 7 .v",
        "columnless extra x1"})
    due.insert(line);
  due.insert("typed different " + source().scalar("select id from typed where m = 'a'") + " .c .f .x .big");
  due.insert("typed different " + source().scalar("select id from typed where m is null") + " .f");
  EXPECT_THAT(lacking(due, lines(found.report)), IsEmpty());
  EXPECT_THAT(lacking(lines(found.report), due), IsEmpty());

  found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 0) << found.result;
  EXPECT_EQ(found.report.at("remaining"), 0) << found.result;
  EXPECT_TRUE(marker_arrives());
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  // The rows that were repaired take changes as every other one does.
  source().exec(
      "update account set balance = 7 where id between 4100 and 4210; delete from two where u in (5, 6);"
      "update typed set x = 'z'; delete from log where at in (4, 5); update ident set v = 'last'");
  EXPECT_TRUE(marker_arrives());
  stop_follower(follower);
  expect_equal_after_drain({.exclude = {"public.scratch"}});
  EXPECT_EQ(target().number("select count(*) from pgbaton.request where kind = 'cut'"), 0);
}

TEST_F(VerifyTest, WithoutAWriterItStreamsItselfAndOptionsChooseWhatIsCompared) {
  source().exec(
      "create table a (id int primary key, v int); insert into a select i, i % 10 from generate_series(1, 20000) i;"
      "create table b (id int primary key, v int); insert into b select i, i from generate_series(1, 10) i;"
      "create table gone (id int primary key)");
  EXPECT_EQ(run("verify").code, 2);  // no replica
  clone_until_caught_up();
  source().exec("insert into b values (11, 11); drop table gone");
  auto found = verify();
  EXPECT_EQ(found.result.code, 0) << found.result;
  EXPECT_EQ(found.report.at("tables_compared"), 2);
  EXPECT_EQ(found.report.at("rows_compared"), 20011);
  EXPECT_EQ(found.report.at("not_compared").at(0).at("reason"), "dropped on the source");
  EXPECT_EQ(target().number("select count(*) from b"), 11);  // carried over on the way

  // A missing row that the source goes on to change: stops the stream, and is mended by whoever asks for it.
  tamper("delete from b where id = 4");
  source().exec("update b set v = 44 where id = 4");
  found = verify();
  EXPECT_EQ(found.result.code, 8) << found.result;
  EXPECT_THAT(found.result.err, ::testing::HasSubstr("`pgbaton verify --repair`"));
  found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 0) << found.result;
  EXPECT_EQ(target().number("select v from b where id = 4"), 44);

  tamper("update b set v = 0 where id = 3; update a set v = -1 where id <= 200");
  EXPECT_EQ(lines(verify({"--include-table", "b"}).report), (std::multiset<std::string>{"b different 3 .v"}));
  found = verify({"--exclude-table", "b", "--where", "id > 190 -- all others"});
  EXPECT_EQ(found.report.at("differences_total"), 10) << found.result;
  EXPECT_EQ(found.report.at("rows_compared"), 20000 - 190);
  found = verify({"--where", "nonsense("});
  EXPECT_EQ(found.result.code, 2) << found.result;
  found = verify({"--include-table", "a", "--sample", "20", "--jobs", "1"});
  EXPECT_NEAR(found.report.at("rows_compared").get<double>(), 4000, 600);
  EXPECT_NEAR(found.report.at("differences_total").get<double>(), 40, 35);
  const auto text = run("verify");
  EXPECT_EQ(text.code, 6) << text;
  EXPECT_THAT(text.out, ::testing::HasSubstr("public.b  different  (id)=(3)  v"));

  // A row that the target cannot take says so, and nothing is changed.
  tamper("alter table b add constraint high check (v <> 3) not valid");
  found = verify({"--include-table", "b", "--repair"});
  EXPECT_EQ(found.result.code, 8) << found.result;
  tamper("alter table b drop constraint high");
  found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 0) << found.result;
  EXPECT_EQ(found.report.at("repaired"), 201);

  // What is open on the source and writes holds up the cut, by name.
  auto open = source().session();
  open.exec("begin; insert into b values (12, 12)");
  const auto waited = run("verify", {"--timeout", "4s"});
  EXPECT_EQ(waited.code, 5) << waited;
  EXPECT_THAT(waited.err, ::testing::HasSubstr("pid " + std::to_string(open.backend_pid())));
  open.exec("commit");
  expect_equal_now();
  // A walsender ends a moment after its client.
  EXPECT_TRUE(source().wait_until("select count(*) from pg_stat_replication", "0"));
  EXPECT_THAT(leftovers(source().conninfo()), ::testing::ElementsAre("publication pgbaton", "slot pgbaton"));
}

// hashint8extended() folds 64 bits into 32: these pairs are equal to it.
TEST_F(VerifyTest, ValuesThatTheServersHashFoldsTogetherAreToldApart) {
  source().exec(
      "create table wide (id bigint primary key, v bigint, at timestamptz, a bigint[], i interval);"
      "insert into wide values (1, 0, '2026-01-01 00:00+00', '{1}', '1s'), (2, -1, null, null, null), (3, 1, null, "
      "null, null), (7, 7, null, null, null);"
      "create table heap (v bigint); alter table heap replica identity full; insert into heap values (5), (5), (9)");
  clone_until_caught_up({"--keyless", "full"});
  tamper(
      "update wide set v = 4294967297 where id = 1; update wide set v = 4294967295 where id = 2;"
      "update wide set v = 4294967296 where id = 3; update wide set id = 4294967302 where id = 7;"
      "update wide set a = '{4294967296}', i = '4294967297us', at = timestamptz '2000-01-01 00:00Z' + "
      "((820454400000000 # ((1::bigint << 32) | 1))::text || ' us')::interval where id = 1;"
      "update heap set v = 4294967300 where v = 5");
  const auto found = verify();
  EXPECT_EQ(found.result.code, 6) << found.result;
  EXPECT_EQ(lines(found.report).count("wide different 1 .v .at .a .i"), 1u) << found.result;
  EXPECT_GE(found.report.value("differences_total", -1), 7) << found.result;
  const auto repaired = verify({"--repair"});
  EXPECT_EQ(repaired.result.code, 0) << repaired.result;
  EXPECT_THAT(differences(source().conninfo(), target().conninfo()), IsEmpty());
}

TEST_F(VerifyTest, NoFalsePositivesUnderPgbenchAndManyWriters) {
  const char* given = std::getenv("PGBATON_VERIFY_RUNS");
  const int runs = given ? std::atoi(given) : 6;
  Pgbench::initialize(source().conninfo(), 2);
  source().exec("create table t (id bigint generated always as identity primary key, who int)");
  auto follower = start("clone", {"--follow"});
  ASSERT_TRUE(wait_for("ready")) << follower.err();
  Pgbench bench(source().conninfo(), {"-c", "4", "-T", "1200", "-R", "200"});
  // S56: snapshots of a slot that are read at once, through verify, must not cost the source a row.
  Load inserts(source().conninfo(), 18, [](Load::Turn& turn) {
    turn.session.exec("insert into t (who) values (" + std::to_string(turn.thread) + "); select pg_sleep(0.05)");
  });
  int longest = 0;
  for (int i = 0; i < runs; ++i) {
    const auto found = verify({"--jobs", "2"});
    ASSERT_EQ(found.result.code, 0) << found.result;
    longest = std::max(longest, found.report.at("pause_ms").get<int>());
  }
  RecordProperty("longest_pause_ms", longest);
  std::cerr << runs << " runs without a difference, longest pause " << longest << " ms\n";
  bench.stop();
  const auto acknowledged = inserts.stop();
  EXPECT_THAT(inserts.errors(), IsEmpty());
  EXPECT_EQ(source().number("select count(*) from t"), acknowledged);
  ASSERT_TRUE(source().wait_until("select count(*) from pg_stat_activity where application_name = 'pgbench'", "0"));
  stop_follower(follower);
  expect_equal_after_drain();
}

#ifdef PGBATON_FAILPOINTS
TEST_F(VerifyTest, ALongComparisonAndARewriteHoldNothingUp) {
  const char* given = std::getenv("PGBATON_VERIFY_HOLD_MS");
  const std::string hold = given ? given : "8000";
  source().exec(
      "create table t (id int primary key, v int); insert into t select i, 0 from generate_series(1, 1000) i;"
      "create table emptied (id int primary key); insert into emptied select generate_series(1, 500)");
  create_marker();
  auto follower = start("clone", {"--follow"});
  ASSERT_TRUE(wait_for("ready")) << follower.err();
  Load load(source().conninfo(), 4, "update t set v = v + 1 where id = 1 + random() * 999; select pg_sleep(0.018)");
  // The cut is taken, then nothing is read for a while; meanwhile one table is emptied, on the target too.
  auto verify = start("verify", {"--json"}, {{"PGBATON_FAILPOINTS", "verify_cut=sleep:" + hold + "@1"}});
  ASSERT_TRUE(verify.wait_for_stderr("comparing at")) << verify.err();
  source().exec("truncate emptied; insert into emptied values (1)");
  Milliseconds worst{0};
  while (verify.running()) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(marker_arrives());
    worst = std::max(worst, std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begin));
  }
  std::cerr << "longest way of a row while the comparison was open for " << hold << " ms: " << worst.count() << " ms\n";
  EXPECT_LT(worst.count(), 5000);  // < 1000 on a quiet machine
  const auto result = verify.wait();
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_EQ(Json::parse(result.out).at("cuts"), 2) << result.out;  // the emptied table at one of its own
  load.stop();
  stop_follower(follower);
  expect_equal_after_drain();
}

TEST_F(VerifyTest, WriterOrRequesterMayDie) {
  source().exec(
      "create table t (id int primary key, v int); insert into t select i, 0 from generate_series(1, 1000) i");
  create_marker();
  auto follower = start("clone", {"--follow"});
  ASSERT_TRUE(wait_for("ready")) << follower.err();
  tamper("update t set v = 5 where id = 5");

  // The requester dies while the appliers rest for it, and again with its repair half done: the stream goes on.
  for (const char* point : {"repair_cut=kill", "repair_before_commit=kill", "verify_digested=kill"}) {
    const auto killed = run("verify", {"--repair"}, {{"PGBATON_FAILPOINTS", point}});
    EXPECT_EQ(killed.code, 128 + SIGKILL) << point << killed;
    EXPECT_TRUE(marker_arrives()) << point;
    EXPECT_EQ(target().number("select v from t where id = 5"), 5) << point;
    EXPECT_TRUE(target().wait_until("select count(*) from pgbaton.request", "0", Milliseconds(20'000))) << point;
    EXPECT_TRUE(
        source().wait_until("select count(*) from pg_replication_slots where temporary", "0", Milliseconds(40'000)))
        << point;
  }
  // A requester that is stopped for longer than its rest lasts: the stream goes on, and its repair finds the target
  // gone on.
  auto stopped = start("verify", {"--repair", "--json"}, {{"PGBATON_FAILPOINTS", "repair_cut=sleep:14000@1"}});
  EXPECT_TRUE(stopped.wait_for_stderr("comparing at"));
  EXPECT_TRUE(marker_arrives(Milliseconds(40'000)));
  auto result = stopped.wait();
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_EQ(target().number("select v from t where id = 5"), 0);

  // The writer dies in the rest.
  stop_follower(follower);
  auto dying = start("follow", {}, {{"PGBATON_FAILPOINTS", "cut_rest=kill"}});
  ASSERT_TRUE(marker_arrives());
  result = run("verify");
  EXPECT_EQ(result.code, 1) << result;
  EXPECT_THAT(result.err, ::testing::HasSubstr("the writer of replica default ended"));
  EXPECT_EQ(dying.wait().code, 128 + SIGKILL);
  expect_equal_now();
  expect_equal();
}
#endif

}  // namespace
}  // namespace pgbaton::testing
