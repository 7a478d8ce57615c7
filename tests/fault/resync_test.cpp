// resync against two live servers: what is copied again comes back exactly, whatever happens meanwhile.
#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "support/catalog.hpp"
#include "support/load.hpp"
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ResyncTest : public PairTest {
 protected:
  // Guard column, foreign key to the table, no key, ledger (the row type of `typed` is in use), partitions, FULL.
  void create_tables() {
    source().exec(
        "create table a (id int primary key, n int not null default 0, big text, unique (n, id));"
        "alter table a alter column big set storage external;"
        "insert into a select i, 0, repeat(md5(i::text), 100) from generate_series(1, 3300) i;"
        "create table b (k text primary key, n int); insert into b select 'k' || i, i from generate_series(1, 20000) i;"
        "create index on b (n);"
        "create table \"C c\" (id int, n int); alter table \"C c\" replica identity full;"
        "insert into \"C c\" select i % 100, i % 7 from generate_series(1, 500) i;"
        "create table inserted (id bigint generated always as identity primary key, who int);"
        "create table child (id int primary key, a_id int references a on delete cascade);"
        "insert into child select i, i from generate_series(1, 100) i;"
        "create table typed (id int primary key, n int); create table uses (id int primary key, t typed);"
        "insert into typed select i, i from generate_series(1, 300) i;"
        "create table part (id int, r int, primary key (id, r)) partition by range (r);"
        "create table part_low partition of part for values from (0) to (10);"
        "create table part_high partition of part for values from (10) to (20);"
        "insert into part select i, i % 20 from generate_series(1, 400) i;"
        "create table log (id int); create function noted() returns trigger language plpgsql as "
        "'begin insert into log values (1); return null; end'; create trigger noted after delete on b for each row "
        "execute function noted();"
        "create table other (id int primary key, n int); insert into other select i, 0 from generate_series(1, 200) i");
    create_marker();
  }
  // Where the load does not change the same rows: the stream would stop at a missing one. The applier may deadlock us.
  void tamper(int tries = 5) try {
    target().exec(
        "set session_replication_role = replica; delete from a where id > 3000; update a set n = -5 where id % 5 = 0;"
        "insert into b values ('extra', 1); delete from b where k ~ '^k2[0-4]..$';"
        "update \"C c\" set n = -1 where id >= 50; delete from part_low where id < 100;"
        "update typed set n = -1 where id % 3 = 0; delete from typed where id > 284; delete from inserted");
  } catch (const std::exception&) {
    return tries > 1 ? tamper(tries - 1) : throw;
  }
  // Inserts, updates without the large value, deletes, changed keys, the large value gone (S27); both kinds of tables.
  static void change(Load::Turn& turn) {
    const auto t = std::to_string(turn.thread), r = std::to_string(turn.round);
    const auto id = std::to_string(1 + (turn.thread + 4 * turn.round) % 1900);
    turn.session.exec("begin; update a set n = n + 1 where id = " + id + "; update b set n = n + 1 where k = 'k" + id +
                      "'; update other set n = n + 1 where id = " + std::to_string(1 + turn.thread * 40) +
                      "; insert into inserted (who) values (" + t + "); commit");
    if (turn.round % 4 != 0) return turn.session.exec("select pg_sleep(0.002)"), void();
    turn.session.exec(
        "delete from a where id = 2201 + " + t + " + 4 * (" + r + " % 200); update a set id = id + 100000, n = n + 1 " +
        "where id = 1901 + " + t + " + 4 * (" + r + " % 75); update a set big = null where id = 1 + " + t + " + 4 * (" +
        r + " % 400); update b set k = k || '_' where k = 'k' || (3000 + " + t + " + 4 * " + r +
        "); delete from b where k = 'k' || (12000 + " + t + " + 4 * " + r +
        "); update \"C c\" set n = n + 1 where ctid = "
        "(select ctid from \"C c\" where id = " +
        t +
        " limit 1 for update skip locked); update typed set n = n + 1 where "
        "id = 1 + " +
        t + " + 4 * (" + r + " % 70); insert into part values (10000 + 4 * " + r + " + " + t + ", " + r + " % 20)");
  }
  // How long a row of another table takes to the target, at worst.
  Milliseconds longest_way_while(const std::function<bool()>& goes_on) {
    Milliseconds worst{0};
    while (goes_on()) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(marker_arrives());
      worst = std::max(worst, std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begin));
    }
    return worst;
  }
  // A key with a foreign key and a trigger, no identity at all, and a partition tree with a ledger.
  void create_new_tables(const std::string& tag) {
    source().exec("create table new_" + tag +
                  " (id int generated by default as identity primary key, ref int references other, n int, "
                  "big text default repeat('x', 3000)); create index on new_" +
                  tag + " (n); comment on table new_" + tag +
                  " is 'new';"
                  "alter table new_" +
                  tag +
                  " alter column big set storage external;"
                  "insert into new_" +
                  tag +
                  " (ref, n) select 1 + i % 200, i from generate_series(1, 900) i;"
                  "create trigger noted after delete on new_" +
                  tag +
                  " for each row execute function noted();"
                  "create table list_" +
                  tag + " (line text); insert into list_" + tag +
                  " values ('early');"
                  "create table tree_" +
                  tag +
                  " (id int, r int, v text, primary key (id, r)) partition by range (r);"
                  "create table tree_" +
                  tag + "_0 partition of tree_" + tag +
                  " for values from (0) to (10);"
                  "create table tree_" +
                  tag + "_1 partition of tree_" + tag +
                  " for values from (10) to (20);"
                  "create table uses_" +
                  tag + " (id int primary key, t tree_" + tag +
                  "_0);"
                  "insert into tree_" +
                  tag + " select i, i % 20, 'v' from generate_series(1, 300) i");
  }
  static void change_new(Load::Turn& turn, const std::string& tag) {
    const auto id = std::to_string(10 + (turn.thread + 4 * turn.round) % 800);
    turn.session.exec("begin; update new_" + tag + " set n = n + 1 where id = " + id + "; insert into new_" + tag +
                      " (ref, n) values (3, 0);"
                      "delete from new_" +
                      tag + " where id = 700 + " + id + "; insert into list_" + tag +
                      " values ('live');"
                      "update tree_" +
                      tag + " set v = v || '+' where id = " + std::to_string(1 + turn.round % 250) +
                      " and r % 4 = " + std::to_string(turn.thread) + "; commit; select pg_sleep(0.01)");
  }
  void expect_nothing_left() {
    EXPECT_THAT(leftovers(source().conninfo()), ::testing::Each(::testing::Not(HasSubstr("__resync"))));
    EXPECT_EQ(target().number("select count(*) from pgbaton.replica"), 1);
    EXPECT_EQ(target().number("select count(*) from pgbaton.table_state where detached or replica <> 'default'"), 0);
    EXPECT_EQ(target().number("select count(*) from pgbaton.progress"), 1);
  }
  void clone_and_follow(std::optional<Tool>& follower) {
    create_tables();
    follower.emplace(start("clone", {"--follow"}));
    ASSERT_TRUE(wait_for("ready")) << follower->err();
  }
};

TEST_F(ResyncTest, S27_S56_SeveralTablesUnderLoadWhileTheOthersGoOn) {
  std::optional<Tool> follower;
  clone_and_follow(follower);
  Load load(source().conninfo(), 4, change);
  int rounds = 20;
  const auto before = longest_way_while([&] { return rounds-- > 0; });
  tamper();
  // Readers of the target see rows all the time, and never wait.
  std::atomic<long long> fewest{1'000'000};
  std::atomic<int> looks{0};
  Load reader(target().conninfo(), 1, [&](Load::Turn& turn) {
    turn.session.exec("set statement_timeout = '10s'");
    fewest = std::min(fewest.load(), turn.session.number("select count(*) from a"));
    ++looks;
    turn.session.exec("select pg_sleep(0.02)");
  });
  // The copy takes a few seconds, so that much is changed meanwhile.
  auto resync = start("resync", {"a", "b", "\"C c\"", "inserted", "--json", "--jobs", "2", "--max-rate", "3MB"});
  EXPECT_TRUE(target().wait_until("select count(*) from pgbaton.table_state where detached", "4"));
  EXPECT_EQ(status_field("resync.running"), "true");
  EXPECT_EQ(status_field("resync.tables"), "4");
  EXPECT_THAT(status_field("tables"), HasSubstr(R"("phase":"resync")"));
  const auto worst = longest_way_while([&] { return resync.running(); });
  auto result = resync.wait();
  ASSERT_EQ(result.code, 0) << result << follower->err();
  reader.stop();
  EXPECT_THAT(reader.errors(), IsEmpty());
  EXPECT_GT(fewest, 1500) << "of " << looks << " looks";
  const auto report = nlohmann::json::parse(result.out);
  std::cerr << "longest way of a row of another table: " << worst.count() << " ms (before it " << before.count()
            << " ms); the stream's pause: " << report.at("pause_ms") << " ms\n";
  EXPECT_LT(worst.count(), 2000 + before.count()) << "a busy machine is slow before it, too";
  EXPECT_EQ(report.at("tables"), 4);
  EXPECT_GT(target().number("select count(distinct boundary) from pgbaton.table_state where phase = 'done'"), 1);
  EXPECT_EQ(status_field("resync"), "null");
  // Once more, and others: by pattern, and by the root of a partitioned table.
  result = run("resync", {"part", "a", "typ*"});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("copied again: 4 tables"));
  EXPECT_EQ(run("resync", {"child"}).code, 0);
  expect_nothing_left();
  const auto acknowledged = load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  EXPECT_TRUE(marker_arrives());
  EXPECT_EQ(source().number("select count(*) from inserted"), acknowledged);
  EXPECT_EQ(target().number("select count(*) from inserted"), acknowledged);
  source().exec(
      "update a set n = n + 1 where id < 100; delete from b where n % 3 = 0; update typed set n = 0; delete from typed "
      "where id < 50; truncate \"C c\"; insert into \"C c\" values (1, 1)");
  EXPECT_TRUE(marker_arrives());
  stop_follower(*follower);
  expect_equal_after_drain();
  EXPECT_EQ(run("finish").code, 0);
  expect_equal();
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

TEST_F(ResyncTest, WithoutAWriterAndWhatItRefuses) {
  create_tables();
  EXPECT_EQ(run("resync", {"a"}).code, 2);  // no replica
  clone_until_caught_up({"--exclude-table", "uses"});
  tamper();
  EXPECT_EQ(run("resync").code, 2);
  EXPECT_EQ(run("resync", {"nothing"}).code, 2);
  auto result = run("resync", {"uses"});
  EXPECT_EQ(result.code, 2) << result;
  EXPECT_THAT(result.err, HasSubstr("does not have this table"));
  source().exec("update a set n = n + 1 where id < 50; delete from typed where id = 250");
  result = run("resync", {"a", "--where", "id > 3000 or n = -5"});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("rows repaired, 0 remain"));
  EXPECT_EQ(target().number("select count(*) from a where n = -5 or id > 3000"),
            source().number("select count(*) from a where n = -5 or id > 3000"));
  EXPECT_EQ(run("resync", {"a", "--where", "no_such_column = 0"}).code, 2);
  result = run("resync", {"a", "b", "p*", "typed", "\"C c\"", "inserted"});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("copied again: 7 tables"));
  expect_nothing_left();
  expect_equal_after_drain({.exclude = {"public.uses"}});
  // A table that is another one by now, which the publication does not have.
  source().exec("drop table \"C c\"; create table \"C c\" (id int, n int)");
  EXPECT_EQ(run("resync", {"\"C c\""}).code, 3);
}

TEST_F(ResyncTest, NewTablesAreTakenInWithTransactionsThatAreOpen) {
  std::optional<Tool> follower;
  clone_and_follow(follower);
  Load load(source().conninfo(), 2, change);
  create_new_tables("x");
  Load writes(source().conninfo(), 3, [](Load::Turn& turn) { change_new(turn, "x"); });
  EXPECT_EQ(run("resync", {"new_x"}).code, 2);
  EXPECT_EQ(run("resync", {"--add", "a"}).code, 2);
  // Open when the slot is made, and open when the tables are published.
  auto early = source().session(), late = source().session();
  early.exec("begin; insert into new_x (ref, n) values (1, -1); update new_x set n = n + 1 where id = 7");
  auto resync = start("resync", {"--add", "new_x", "list_x", "tree_x", "uses_x", "--max-rate", "1MB"});
  ASSERT_TRUE(
      source().wait_until("select count(*) from pg_replication_slots where slot_name = 'pgbaton__resync'", "1"));
  std::this_thread::sleep_for(Milliseconds(500));
  early.exec("update new_x set n = n + 1 where id = 8; commit");
  ASSERT_TRUE(
      source().wait_until("select count(*) from pg_replication_slots where slot_name = 'pgbaton__resync' and "
                          "confirmed_flush_lsn is not null",
                          "1"));
  late.exec("begin; insert into new_x (ref, n) values (2, -2); update new_x set n = n + 1 where id = 9");
  EXPECT_TRUE(source().wait_until(
      "select count(*) from pg_publication_tables where pubname = 'pgbaton' and tablename = 'new_x'", "1"));
  std::this_thread::sleep_for(Milliseconds(1500));
  late.exec("insert into list_x values ('late'); insert into tree_x values (77, 1, 'late'); commit");
  std::cerr << longest_way_while([&] { return resync.running(); }).count() << " ms: longest way of another row\n";
  const auto result = resync.wait();
  ASSERT_EQ(result.code, 0) << result << follower->err();
  EXPECT_THAT(result.out, HasSubstr("added: 5 tables"));
  expect_nothing_left();
  EXPECT_EQ(target().number("select count(*) from pg_constraint where contype = 'f' and convalidated and conrelid = "
                            "'new_x'::regclass"),
            1);
  source().exec("insert into part select 900000 + i, i from generate_series(1, 5) i; update new_x set n = 0");
  EXPECT_TRUE(marker_arrives());
  EXPECT_EQ(run("resync", {"new_x", "tree_x"}).code, 0);
  writes.stop();
  load.stop();
  EXPECT_THAT(writes.errors(), IsEmpty());
  EXPECT_TRUE(marker_arrives());
  stop_follower(*follower);
  expect_equal_after_drain();
  EXPECT_EQ(run("finish").code, 0);
  EXPECT_THAT(catalog_differences(source().conninfo(), target().conninfo()), IsEmpty());
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
}

#ifdef PGBATON_FAILPOINTS
TEST_F(ResyncTest, NewTablesAreTakenInThoughItIsKilledAnywhere) {
  std::optional<Tool> follower;
  clone_and_follow(follower);
  int round = 0;
  std::string tag;
  for (const std::string where : {"resync_announced", "resync_published", "schema_restored", "before_streaming",
                                  "resync_before_commit", "resync_given_back"}) {
    tag = "k" + std::to_string(++round);
    create_new_tables(tag);
    Load writes(source().conninfo(), 2, [&](Load::Turn& turn) { change_new(turn, tag); });
    auto result = run("resync", {"--add", "new_" + tag, "list_" + tag, "tree_" + tag, "uses_" + tag},
                      {{"PGBATON_FAILPOINTS", where + "=kill@1"}});
    EXPECT_EQ(result.code, 128 + SIGKILL) << where << result << follower->err();
    EXPECT_TRUE(marker_arrives()) << where << follower->err();
    if (where == "resync_given_back") {
      EXPECT_EQ(run("finish", {"--force", "--take-over"}).code, 3);
      follower.emplace(start("follow"));
    }
    result = run("resync", {"other"});  // goes on with what was begun
    EXPECT_EQ(result.code, 0) << where << result;
    expect_nothing_left();
    EXPECT_EQ(target().number("select count(*) from pg_constraint where contype = 'f' and convalidated and conrelid = "
                              "'new_" +
                              tag + "'::regclass"),
              1)
        << where;
    writes.stop();
    EXPECT_THAT(writes.errors(), IsEmpty());
  }
  EXPECT_TRUE(marker_arrives());
  stop_follower(*follower);
  expect_equal_after_drain();
  // A drop takes a half-done one along; the table stays.
  create_new_tables("d");
  EXPECT_EQ(run("resync", {"--add", "new_d"}, {{"PGBATON_FAILPOINTS", "before_streaming=kill@1"}}).code, 128 + SIGKILL);
  const auto dropped = run("drop");
  EXPECT_EQ(dropped.code, 0) << dropped;
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

TEST_F(ResyncTest, KilledAnywhereItGoesOn) {
  std::optional<Tool> follower;
  clone_and_follow(follower);
  Load load(source().conninfo(), 2, change);
  for (const std::string where : {"consistent_point_stored", "resync_detached", "copy_before_commit", "table_copied",
                                  "before_streaming", "resync_cut", "resync_before_commit", "resync_given_back"}) {
    tamper();
    auto result = run("resync", {"a", "b"}, {{"PGBATON_FAILPOINTS", where + "=kill@1"}});
    EXPECT_EQ(result.code, 128 + SIGKILL) << where << result << follower->err();
    EXPECT_TRUE(marker_arrives()) << where << follower->err();
    if (where == "before_streaming") {
      EXPECT_EQ(status_field("resync.running"), "false");
      EXPECT_THAT(status_field("warnings"), HasSubstr("resync"));
      result = run("finish", {"--force", "--take-over"});
      EXPECT_EQ(result.code, 3) << result;
      EXPECT_THAT(result.err, HasSubstr("resync"));
      follower.emplace(start("follow"));
      result = run("verify");  // of all others
      EXPECT_THAT(result.out, HasSubstr("being copied again")) << result;
      EXPECT_THAT(result.err,
                  HasSubstr(R"(not compared, and behind the others until their resync is over: "public"."a")"))
          << result;
      EXPECT_EQ(run("verify", {"--include-table", "a", "--include-table", "uses"}).code,
                1);  // no difference, no success
      EXPECT_EQ(run("verify", {"--include-table", "uses"}).code, 0);
    }
    result = run("resync", {"b", "a"});
    EXPECT_EQ(result.code, 0) << where << result;
    expect_nothing_left();
    const auto verified = run("verify", {"--include-table", "a", "--include-table", "b"});
    EXPECT_EQ(verified.code, 0) << where << verified;
  }
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  EXPECT_EQ(run("resync", {"part", "typed", "inserted", "\"C c\""}).code, 0);
  EXPECT_TRUE(marker_arrives());
  stop_follower(*follower);
  expect_equal_after_drain();
  EXPECT_EQ(run("resync", {"b"}, {{"PGBATON_FAILPOINTS", "before_streaming=kill@1"}}).code, 128 + SIGKILL);
  const auto dropped = run("drop");
  EXPECT_EQ(dropped.code, 0) << dropped;
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

TEST_F(ResyncTest, TheWriterIsKilledMeanwhile) {
  std::optional<Tool> follower;
  clone_and_follow(follower);
  Load load(source().conninfo(), 2, change);
  tamper();
  auto resync = start("resync", {"a", "b", "--max-rate", "2MB"});
  ASSERT_TRUE(target().wait_until("select count(*) from pgbaton.table_state where detached", "2"));
  follower->kill_hard();
  follower.emplace(start("follow", {}, {{"PGBATON_FAILPOINTS", "cut_rest=kill@1"}}));
  EXPECT_EQ(follower->wait(Milliseconds(60'000)).code, 128 + SIGKILL);
  follower.emplace(start("follow"));
  auto result = resync.wait();
  if (result.err.find("the writer that took the request has ended") != std::string::npos)  // it had just asked
    result = run("resync", {"a", "b"});
  EXPECT_EQ(result.code, 0) << result;
  expect_nothing_left();
  stop_follower(*follower);
  tamper();
  resync = start("resync", {"a", "b", "--max-rate", "1MB"});
  ASSERT_TRUE(target().wait_until("select count(*) from pgbaton.table_state where detached", "2"));
  EXPECT_TRUE(marker_arrives());
  EXPECT_EQ(run("resync", {"other"}).code, 7);
  resync.kill(SIGTERM);
  result = resync.wait();
  EXPECT_EQ(result.code, 1) << result;
  follower.emplace(start("follow"));
  result = run("resync", {"a"});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("copied again: 2 tables"));
  expect_nothing_left();
  EXPECT_EQ(run("resync", {"part", "typed", "inserted", "\"C c\""}).code, 0);
  load.stop();
  EXPECT_TRUE(marker_arrives());
  stop_follower(*follower);
  expect_equal_after_drain();
}
#endif

}  // namespace
}  // namespace pgbaton::testing
