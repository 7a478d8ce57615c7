// A name is not a table: tables whose names go to others, on the source, between the plan and their turn in the copy.
// Rows of the one must not be left behind, and not be taken for those of the other. Many cases, each in a database of
// its own, share a pair of clusters and go on at the same time.
#include <signal.h>

#include <deque>

#include "rebuild.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kExchange =
    "begin; alter table a rename to x; alter table b rename to a; alter table x rename to b; commit;";
const std::string kExchangeRoots =
    "begin; alter table p rename to x; alter table q rename to p; alter table x rename to q; commit;";

class RenamedTest : public PairTest {
 protected:
  ClusterOptions source_options() const override {
    return {.settings = {{"max_replication_slots", "40"}, {"max_wal_senders", "40"}}};
  }
  Arguments line(const std::string& command, const std::string& name, const Arguments& more = {}) {
    Arguments all{command, "--source", source().conninfo(name), "--target", target().conninfo(name), "--name", name};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ToolResult in(const std::string& name, const std::string& command, const Arguments& more = {},
                const std::string& failpoints = "") {
    return Tool::run(line(command, name, more), Milliseconds(120'000), environment(failpoints));
  }
  static Environment environment(const std::string& failpoints) {
    return failpoints.empty() ? Environment{} : Environment{{"PGBATON_FAILPOINTS", failpoints}};
  }
  // In an order that --jobs 1 keeps: big comes first, and all others have their turn after it.
  void create(const std::string& name) {
    source().exec("create database " + name);
    target().exec("create database " + name);
    source().exec(
        "create table big (id int primary key, v text);"
        "insert into big select i, repeat(md5(i::text), 20) from generate_series(1, 2000) i;"
        "create table a (id int primary key, v text); insert into a select i, 'a' from generate_series(1, 100) i;"
        "create table b (id int primary key, v text); insert into b select i, 'b' from generate_series(1, 90) i;"
        "create table p (id int, r int, primary key (id, r)) partition by range (r);"
        "create table p_low partition of p for values from (0) to (10);"
        "create table p_high partition of p for values from (10) to (20);"
        "insert into p select i, i % 20 from generate_series(1, 100) i;"
        "create schema one; create table one.t (id int primary key); insert into one.t values (1)",
        name);
  }
  // Stands still when big is copied, and before all others are.
  Tool frozen_copy(const std::string& name, const Arguments& more = {}) {
    Arguments all{"--jobs", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return Tool(line("clone", name, all), environment("table_copied=freeze@1"));
  }
  std::vector<std::string> unlike(const std::string& name, const CompareOptions& options = {}) {
    return differences(source().conninfo(name), target().conninfo(name), options);
  }
  std::string doubts(const std::string& name) {
    return target().scalar(
        "select coalesce(string_agg(table_name || ' ' || kind || ': ' || reason, E'\n' order by table_name, id), '') "
        "from pgbaton.doubt",
        name);
  }
  // Nobody who asks may be told that all is there.
  void expect_held(const std::string& name) {
    EXPECT_EQ(in(name, "follow", {"--until", "caught-up"}).code, 0) << name;
    const auto verified = in(name, "verify");
    EXPECT_EQ(verified.code, 6) << name << verified;
    const auto finished = in(name, "finish");
    EXPECT_EQ(finished.code, 8) << name << finished;
    EXPECT_THAT(finished.err, HasSubstr("HINT"));
    const auto moved = in(name, "switchover", {"--dry-run"});
    EXPECT_EQ(moved.code, 3) << name << moved;
    EXPECT_THAT(moved.out + moved.err, HasSubstr("table.doubt")) << name;
  }

  // Cases of the tests below, each in a database of its own.
  void exchange_while_the_slot_is_made();
  void rename_a_partition_that_is_taken_in();
};

TEST_F(RenamedTest, NamesThatGoToOthersDuringTheCopyStopIt) {
  struct Case {
    std::string name, ddl, back, message;
  };
  const std::deque<Case> cases{
      {"exchanged", kExchange, kExchange, "renamed to public."},
      {"replaced",
       "alter table a rename to a_old; create table a (like a_old including all); insert into a values (1, 'new')",
       "drop table a; alter table a_old rename to a", "renamed to public.a_old"},
      {"moved", "create schema two; alter table a set schema two", "alter table two.a set schema public",
       "renamed to two.a"},
      {"schemas", "alter schema one rename to two; create schema one; create table one.t (id int primary key)",
       "drop table one.t; drop schema one; alter schema two rename to one", "renamed to two.t"},
      {"swapped",
       "begin; alter table p detach partition p_high; alter table p_high rename to p_was; create table p_high (like "
       "p_was including all); alter table p attach partition p_high for values from (10) to (20); commit",
       "begin; alter table p detach partition p_high; drop table p_high; alter table p_was rename to p_high; alter "
       "table p attach partition p_high for values from (10) to (20); commit",
       "renamed to public.p_was"},
      {"viewed", "alter table a rename to a_base; create view a as select * from a_base",
       "drop view a; alter table a_base rename to a", "renamed to public.a_base"}};
  std::deque<Tool> tools;
  for (const auto& one : cases) {
    create(one.name);
    tools.push_back(frozen_copy(one.name));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_TRUE(wait_frozen(tools[i], Milliseconds(60'000))) << tools[i].err();
    source().exec(cases[i].ddl, cases[i].name);
    tools[i].kill(SIGCONT);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto stopped = tools[i].wait();
    EXPECT_EQ(stopped.code, 8) << cases[i].name << stopped;
    EXPECT_THAT(stopped.err, AllOf(HasSubstr(cases[i].message), HasSubstr("HINT"), HasSubstr("ename it back")))
        << cases[i].name;
    EXPECT_THAT(stopped.err, Not(HasSubstr("dropped on the source"))) << cases[i].name;
  }
  tools.clear();
  // A run that goes on looks before it copies, or builds what another table of that name needs.
  for (const auto& one : cases) tools.emplace_back(line("clone", one.name));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto stopped = tools[i].wait();
    EXPECT_EQ(stopped.code, 8) << cases[i].name << stopped;
    EXPECT_THAT(stopped.err, AllOf(HasSubstr("renamed"), HasSubstr("HINT"))) << cases[i].name;
    source().exec(cases[i].back, cases[i].name);
  }
  tools.clear();
  for (const auto& one : cases) tools.emplace_back(line("clone", one.name, {"--until", "caught-up"}));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto done = tools[i].wait();
    EXPECT_EQ(done.code, 0) << cases[i].name << done;
    EXPECT_THAT(unlike(cases[i].name), IsEmpty()) << cases[i].name;
  }
  exchange_while_the_slot_is_made();
}

// What is really gone is left out; what came under its name is no part of the replica, and holds it.
TEST_F(RenamedTest, DroppedAndMadeAgainHoldsAndDroppedDoesNot) {
  for (const std::string name : {"dropped", "remade", "kept", "adopted"}) create(name);
  auto dropped = frozen_copy("dropped"), remade = frozen_copy("remade"), kept = frozen_copy("kept"),
       adopted = frozen_copy("adopted");
  for (auto* tool : {&dropped, &remade, &kept, &adopted})
    ASSERT_TRUE(wait_frozen(*tool, Milliseconds(60'000))) << tool->err();
  source().exec("drop table a", "dropped");
  source().exec("drop table a; create table a (id int primary key, v text); insert into a values (1, 'new')", "remade");
  source().exec("alter extension plpgsql add table a", "adopted");
  adopted.kill_hard();
  for (auto* tool : {&dropped, &remade, &kept}) tool->kill(SIGCONT);
  for (auto* tool : {&dropped, &remade, &kept}) {
    const auto result = tool->wait();
    EXPECT_EQ(result.code, 0) << result;
  }
  EXPECT_EQ(in("dropped", "follow", {"--until", "caught-up"}).code, 0);
  EXPECT_EQ(in("dropped", "verify").code, 0);
  EXPECT_EQ(in("dropped", "finish").code, 0);
  EXPECT_THAT(unlike("dropped", {.exclude = {"public.a"}}), IsEmpty());

  expect_held("remade");
  EXPECT_THAT(doubts("remade"), HasSubstr("a differs: was dropped and made again"));
  EXPECT_NE(in("remade", "verify", {"--include-table", "a", "--include-table", "b"}).code, 0);

  // What an earlier version has recorded: two tables that had exchanged their names, and one that had been replaced.
  source().exec(kExchange + "alter table one.t rename to t_old; create table one.t (id int primary key)", "kept");
  target().exec(
      "update pgbaton.table_state set phase = 'skipped', note = 'dropped on the source before it was copied' where "
      "table_name in ('a', 'b', 't'); truncate a, b, one.t",
      "kept");
  expect_held("kept");
  EXPECT_THAT(doubts("kept"), AllOf(HasSubstr("a differs: was left out as dropped"), HasSubstr("as \"public\".\"b\""),
                                    HasSubstr("as \"one\".\"t_old\"")));
  EXPECT_NE(in("kept", "verify", {"--include-table", "a", "--include-table", "big"}).code, 0);

  const auto refused = in("adopted", "clone");
  EXPECT_EQ(refused.code, 8) << refused;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("member of an extension"), HasSubstr("HINT")));
  source().exec("alter extension plpgsql drop table a", "adopted");
  EXPECT_EQ(in("adopted", "clone", {"--until", "caught-up"}).code, 0);
  EXPECT_THAT(unlike("adopted"), IsEmpty());
}

// Names that are exchanged after the copy: nothing is compared with, or mended after, a table that is another one.
TEST_F(RenamedTest, ComparisonsAndPartitionedTablesGoByWhatIsMeant) {
  create("after");
  source().exec(
      "create table q (id int, r int, primary key (id, r)) partition by range (r);"
      "create table q_all partition of q for values from (0) to (20); insert into q values (1, 1)",
      "after");
  ASSERT_EQ(in("after", "clone", {"--until", "caught-up"}).code, 0);
  source().exec(kExchange + kExchangeRoots, "after");
  const auto repaired = in("after", "verify", {"--repair"});
  EXPECT_EQ(repaired.code, 6) << repaired;
  EXPECT_THAT(repaired.out, HasSubstr("not compared: public.a: called \"public\".\"b\" on the source"));
  EXPECT_EQ(target().number("select count(*) from a where v = 'a'", "after"), 100) << "mended after another table";
  EXPECT_THAT(doubts("after"), AllOf(HasSubstr("p differs: is called \"public\".\"q\" on the source"),
                                     HasSubstr("a differs: is called \"public\".\"b\" on the source")));
  EXPECT_EQ(in("after", "finish").code, 8);
  target().exec(kExchange + kExchangeRoots, "after");
  EXPECT_EQ(in("after", "verify").code, 0);
  EXPECT_THAT(doubts("after"), IsEmpty());
  EXPECT_EQ(in("after", "finish").code, 0);
  EXPECT_THAT(unlike("after"), IsEmpty());
  rename_a_partition_that_is_taken_in();
}

// While the slot waits for a transaction, that or another one renames.
void RenamedTest::exchange_while_the_slot_is_made() {
  create("waiting");
  auto open = source().session("waiting");
  open.exec("begin; insert into big values (10000, 'open')");
  Tool clone(line("clone", "waiting", {"--until", "caught-up"}));
  ASSERT_TRUE(
      source().wait_until("select count(*) > 0 from pg_replication_slots where slot_name like 'pgbaton_waiting%'", "t",
                          Milliseconds(30'000)))
      << clone.err();
  source().exec(kExchange, "waiting");
  open.exec("commit");
  const auto stopped = clone.wait();
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("renamed"), HasSubstr("HINT")));
  const auto done = in("waiting", "clone", {"--until", "caught-up"});
  EXPECT_EQ(done.code, 0) << done;
  EXPECT_THAT(unlike("waiting"), IsEmpty());
}

TEST_F(RenamedTest, ResyncCopiesNoOtherTable) {
  create("again");
  source().exec("create table n (id int primary key)", "again");
  ASSERT_EQ(in("again", "clone", {"--until", "caught-up", "--exclude-table", "n"}).code, 0);
  const auto frozen_at = [&](const std::string& point, const Arguments& more) {
    Tool tool(line("resync", "again", more), environment(point + "=freeze@1"));
    EXPECT_TRUE(wait_frozen(tool, Milliseconds(60'000))) << tool.err();
    return tool;
  };
  const auto expect_refused = [&](Tool& tool, int code, const std::string& message) {
    tool.kill(SIGCONT);
    const auto refused = tool.wait();
    EXPECT_EQ(refused.code, code) << refused;
    EXPECT_THAT(refused.err, AllOf(HasSubstr(message), HasSubstr("HINT")));
    EXPECT_EQ(target().number("select count(*) from a where v = 'a'", "again"), 100);
    EXPECT_EQ(target().number("select count(*) from b where v = 'b'", "again"), 90);
  };
  {  // between the arguments and the plan
    auto tool = frozen_at("resync_chosen", {"a"});
    source().exec(kExchange, "again");
    expect_refused(tool, 3, "another table has this name");
    EXPECT_EQ(in("again", "resync", {"a"}).code, 3);
    source().exec(kExchange, "again");
  }
  {  // between the plan and the copy
    auto tool = frozen_at("resync_followed", {"a"});
    source().exec(kExchange, "again");
    expect_refused(tool, 3, "renamed");  // it goes on at once, with the table out of the stream, and finds the same
    EXPECT_EQ(in("again", "resync", {"a"}).code, 3);
    source().exec(kExchange, "again");
    const auto done = in("again", "resync", {"a"});
    EXPECT_EQ(done.code, 0) << done;
  }
  {
    auto tool = frozen_at("resync_published", {"--add", "n"});
    source().exec("alter table n rename to n_old; create table n (id int primary key)", "again");
    expect_refused(tool, 8, "renamed");
    source().exec("drop table n; alter table n_old rename to n; insert into n values (1)", "again");
    const auto done = in("again", "resync", {"--add", "n"});
    EXPECT_EQ(done.code, 0) << done;
  }
  source().exec("alter table n rename to n_old", "again");
  const auto twice = in("again", "resync", {"--add", "n_old"});
  EXPECT_EQ(twice.code, 3) << twice;
  EXPECT_THAT(twice.err, HasSubstr("under the name"));
  source().exec("alter table n_old rename to n; insert into a values (500, 'late'); insert into n values (2)", "again");
  {  // really gone: the others come back, and it is said
    auto tool = frozen_at("resync_followed", {"a", "b"});
    source().exec("drop table b", "again");
    tool.kill(SIGCONT);
    const auto dropped = tool.wait();
    EXPECT_EQ(dropped.code, 8) << dropped;
    EXPECT_THAT(dropped.err, HasSubstr("dropped on the source before they were copied"));
  }
  EXPECT_EQ(in("again", "follow", {"--until", "caught-up"}).code, 0);
  EXPECT_EQ(in("again", "verify").code, 0);
  EXPECT_EQ(in("again", "finish").code, 0);
  EXPECT_THAT(unlike("again", {.exclude = {"public.b"}}), IsEmpty());
}

// A new partition that is renamed while it is taken in.
void RenamedTest::rename_a_partition_that_is_taken_in() {
  create("taken");
  ASSERT_EQ(in("taken", "clone", {"--until", "caught-up"}).code, 0);
  source().exec("create table p_new partition of p for values from (20) to (30); insert into p values (1, 25)",
                "taken");
  auto open = source().session("taken");
  open.exec("begin; insert into b values (1000, 'open')");
  Tool follow(line("follow", "taken", {"--until", "caught-up", "--drift", "add-columns"}));
  ASSERT_TRUE(
      source().wait_until("select count(*) > 0 from pg_replication_slots where temporary and slot_name like "
                          "'pgbaton_taken%'",
                          "t", Milliseconds(30'000)))
      << follow.err();
  source().exec("alter table p_new rename to p_x", "taken");
  open.exec("commit");
  const auto stopped = follow.wait();
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("renamed to"), HasSubstr("p_x"), HasSubstr("HINT")));
  const auto again = in("taken", "follow", {"--until", "caught-up", "--drift", "add-columns"});
  EXPECT_EQ(again.code, 8) << again;
  source().exec("alter table p_x rename to p_new", "taken");
  const auto done = in("taken", "follow", {"--until", "caught-up", "--drift", "add-columns"});
  EXPECT_EQ(done.code, 0) << done;
  // Rows from before it was attached are in no stream, and a table of that name on the target has none of them.
  source().exec(
      "create table p_full (like p including all); insert into p_full select i, 35 from generate_series(1, 50) i;"
      "alter table p attach partition p_full for values from (30) to (40)",
      "taken");
  target().exec("create table p_full partition of p for values from (30) to (40)", "taken");
  EXPECT_EQ(in("taken", "verify").code, 6);
  EXPECT_EQ(in("taken", "finish").code, 8);
  EXPECT_THAT(doubts("taken"), HasSubstr("p_full differs: is a new partition"));
  source().exec("insert into p values (1000, 35)", "taken");
  EXPECT_EQ(in("taken", "follow", {"--until", "caught-up", "--drift", "add-columns"}).code, 0);
  EXPECT_EQ(in("taken", "verify").code, 0);
  EXPECT_THAT(doubts("taken"), IsEmpty());
  EXPECT_EQ(in("taken", "finish").code, 0);
  EXPECT_THAT(unlike("taken"), IsEmpty());
}

class RenamedRebuildTest : public Rebuilds {};

// No generation with empty tables is ever served, compared or not.
TEST_F(RenamedRebuildTest, NothingIsSwappedInThatLacksATable) {
  create_tables();
  ASSERT_EQ(rebuild().code, 0);
  const std::string exchange =
      "begin; alter table one rename to x; alter table two rename to one; alter table x rename to two; commit";
  auto exchanged = frozen("schema_restored", {"--verify"});
  source().exec(exchange);
  exchanged.kill(SIGCONT);
  auto stopped = exchanged.wait();
  EXPECT_EQ(stopped.code, 8) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("renamed to public."));
  source().exec(exchange);
  expect_served();

  auto remade = frozen("schema_restored");
  source().exec("drop table version; create table version (id serial primary key); insert into version values (7)");
  remade.kill(SIGCONT);
  stopped = remade.wait();
  EXPECT_EQ(stopped.code, 1) << stopped;
  EXPECT_THAT(stopped.err, HasSubstr("dropped and made again"));
  EXPECT_EQ(generations("building"), 0);
  EXPECT_EQ(rebuild({"--verify"}).code, 0);
  expect_served();
}

}  // namespace
}  // namespace pgbaton::testing
