// What an interrupted clone keeps or takes back, how it goes on, and how a replica is removed.
#include "clone_fixture.hpp"

namespace pgbaton::snapshot {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CloneTest, InterruptedBeforeTheFirstTableTakesEverythingBack) {
  source_.exec("create table t (id int primary key); insert into t values (1)");
  auto open = source_.session();
  open.exec("begin; insert into t values (2)");
  std::stop_source stop;
  auto run = std::async(std::launch::async, [&] { return error_of([&] { clone(options(), stop.get_token()); }); });
  ASSERT_TRUE(
      source_.wait_until("select count(*) from pg_stat_activity where application_name = 'pgbaton/default/slot'", "1"));
  ASSERT_TRUE(source_.wait_until("select count(*) from pg_publication", "1"));
  stop.request_stop();
  EXPECT_EQ(run.get().kind(), ErrorKind::failed);
  EXPECT_THAT(testing::leftovers(source_.conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(), IsEmpty());
  EXPECT_EQ(target_.number("select count(*) from pg_class where relname = 't'"), 0);
}

TEST_F(CloneTest, ResumeKeepsFinishedTablesAndGivesTheRestANewBoundary) {
  source_.exec(std::string(kTwoTables) + kThirdTable);
  auto slow = options();
  slow.jobs = 1;
  slow.max_rate = 2 << 20;
  interrupt_clone(slow, "big");
  EXPECT_EQ(target_.scalar("select phase from pgbaton.replica"), "copying");
  EXPECT_THAT(testing::leftovers(source_.conninfo()), ElementsAre("publication pgbaton", "slot pgbaton"));
  auto xmin = target_.scalar("select distinct xmin from big");
  source_.exec("insert into other values (100000, 'late'); update big set v = 'later' where id = 1");
  auto summary = clone(options());
  EXPECT_GE(summary.tables_kept, 1);
  EXPECT_EQ(summary.boundaries, 1);
  EXPECT_EQ(target_.scalar("select distinct xmin from big"), xmin) << "copied again";
  EXPECT_EQ(state_of("big", "boundary::text"), to_string(summary.consistent_point));
  EXPECT_EQ(state_of("other", "(boundary > '" + to_string(summary.consistent_point) + "')::text"), "true");
  EXPECT_EQ(target_.number("select count(*) from other where id = 100000"), 1);
  EXPECT_NE(target_.scalar("select v from big where id = 1"), "later") << "that is the stream's to bring";
  EXPECT_EQ(target_.number("select count(*) from pg_constraint where contype = 'f'"), 1);
  EXPECT_THAT(testing::leftovers(source_.conninfo()), ElementsAre("publication pgbaton", "slot pgbaton"));
}

TEST_F(CloneTest, AResumedTreeIsGuardedWithTheSmallestBoundary) {
  source_.exec(
      "create table p (id int primary key, v text) partition by range (id);"
      "create table p1 partition of p for values from (0) to (40000);"
      "create table p2 partition of p for values from (40000) to (60000);"
      "insert into p select i, repeat('x', 100) from generate_series(0, 59999) i");
  auto slow = options();
  slow.jobs = 1;
  slow.max_rate = 2 << 20;
  interrupt_clone(slow, "p1");
  source_.exec("insert into p select i, 'later' from generate_series(59000, 59999) i on conflict do nothing");
  auto summary = clone(options());
  EXPECT_EQ(summary.tables_kept, 1);
  auto first = to_string(summary.consistent_point);
  EXPECT_EQ(state_of("p1", "phase || boundary"), "done" + first);
  EXPECT_EQ(state_of("p2", "phase || (boundary > '" + first + "')"), "donetrue");
  EXPECT_EQ(target_.number("select count(*) from p where _pgbaton_lsn = '" + first + "'"), 60000);
  // As if the run had been killed between the two leaves: the column must come out the same.
  target_.exec(
      "update pgbaton.table_state set guarded = false, phase = 'indexed' where table_name = 'p2';"
      "update pgbaton.replica set phase = 'indexing'");
  clone(options());
  EXPECT_EQ(state_of("p2", "phase"), "done");
  EXPECT_EQ(target_.number("select count(*) from p where _pgbaton_lsn = '" + first + "'"), 60000);
}

TEST_F(CloneTest, ResumeRefusesOtherOptionsAndALostSlot) {
  source_.exec(std::string(kTwoTables) + kThirdTable);
  auto slow = options();
  slow.jobs = 1;
  slow.max_rate = 1 << 20;
  interrupt_clone(slow, "big");
  auto other = options();
  other.filter.exclude_tables = {"little"};
  auto error = error_of([&] { clone(other); });
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_THAT(error.describe(), HasSubstr("--exclude-table"));
  source_.exec("select pg_drop_replication_slot('pgbaton')");
  EXPECT_EQ(error_of([&] { clone(options()); }).kind(), ErrorKind::boundary_lost);
  // --restart is the way on.
  reset_replica(options().source, options().target, "default");
  EXPECT_EQ(clone(options()).tables_kept, 0);
  EXPECT_THAT(testing::differences(source_.conninfo(), target_.conninfo()), IsEmpty());
}

TEST_F(CloneTest, RestartEmptiesExactlyWhatWasRecorded) {
  source_.exec(kTwoTables);
  clone(options());
  target_.exec("create table mine (id int); insert into mine values (1); insert into little values (500, null)");
  source_.exec("update big set v = 'new' where id = 1; alter table little add column extra text default 'e'");
  reset_replica(options().source, options().target, "default");
  EXPECT_EQ(target_.number("select count(*) from big"), 0);
  EXPECT_EQ(target_.number("select count(*) from mine"), 1);
  EXPECT_THAT(testing::leftovers(source_.conninfo()), IsEmpty());
  auto first = target_.scalar("select generation from pgbaton.replica");
  auto summary = clone(options());
  EXPECT_EQ(summary.rows, 40010);
  EXPECT_NE(target_.scalar("select generation from pgbaton.replica"), first);
  EXPECT_THAT(testing::differences(source_.conninfo(), target_.conninfo(), {.exclude = {"public.mine"}}), IsEmpty());
  EXPECT_EQ(target_.number("select count(*) from pg_constraint where contype = 'f'"), 1);
}

TEST_F(CloneTest, RemoveWithOneSideUnreachable) {
  source_.exec("create table t (id int primary key)");
  clone(options());
  auto nowhere = options();
  nowhere.source.conninfo = nowhere.target.conninfo = "host=/nonexistent user=postgres connect_timeout=2";
  auto without_target = remove_replica(options().source, nowhere.target, options().names);
  EXPECT_THAT(without_target.left, ElementsAre(HasSubstr("on the target")));
  EXPECT_THAT(testing::leftovers(source_.conninfo()), IsEmpty());
  auto without_source = remove_replica(nowhere.source, options().target, options().names);
  EXPECT_THAT(without_source.left,
              ElementsAre(AllOf(HasSubstr("pg_drop_replication_slot('pgbaton')"), HasSubstr("DROP PUBLICATION")),
                          HasSubstr("state of replica default")));
  // The state stays until the source is clean, so that the next run knows what is its own there.
  EXPECT_THAT(remove_replica(options().source, options().target, options().names).left, IsEmpty());
  EXPECT_THAT(target_leftovers(), IsEmpty());
}

TEST_F(CloneTest, GuardThatSomethingDependsOnIsNamedAndTheStateStays) {
  source_.exec("create table t (id int primary key)");
  clone(options());
  target_.exec("create view watcher as select * from t");
  auto report = remove_replica(options().source, options().target, options().names);
  EXPECT_THAT(report.left, ElementsAre(HasSubstr("watcher")));
  EXPECT_EQ(target_.number("select count(*) from pgbaton.replica"), 1);
  target_.exec("drop view watcher");
  EXPECT_THAT(remove_replica(options().source, options().target, options().names).left, IsEmpty());
  EXPECT_THAT(target_leftovers(), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::snapshot
