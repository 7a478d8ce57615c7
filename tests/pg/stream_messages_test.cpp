// Errors of commands on a copied replica.
#include "pg/messages.hpp"

namespace pgbaton::testing {
namespace {

TEST_F(MessagesTest, OfASlot) {
  const Arguments caught_up{"--until", "caught-up"};
  expect_messages({
      {"second_writer",
       [](Scene& s) {
         s.cloned();
         s.other.emplace(s.arguments("follow", {}));
         ASSERT_TRUE(s.other->wait_for_stderr("streaming from slot"));
       },
       "follow",
       {},
       7,
       {"second_writer", "pid"}},
      {"slot_dropped",
       [](Scene& s) {
         s.cloned();
         s.source("select pg_drop_replication_slot('" + s.slot() + "')");
       },
       "follow",
       caught_up,
       4,
       {"pgbaton_slot_dropped", "source"}},
      {"slot_advanced",
       [](Scene& s) {
         s.cloned();
         s.source("insert into t values (2)");
         s.source("select pg_replication_slot_advance('" + s.slot() + "', pg_current_wal_lsn())");
       },
       "follow",
       caught_up,
       4,
       {"pgbaton_slot_advanced", "LSN"}},
      {"another_cluster",
       [](Scene& s) {
         s.cloned();
         s.source_conninfo = s.target_conninfo;
       },
       "follow",
       {},
       4,
       {"pgbaton_another_cluster", "source"}},
      {"another_database",
       [](Scene& s) {
         s.cloned();
         s.source_conninfo = with(s.source_conninfo, "dbname=postgres");
       },
       "follow",
       {},
       4,
       {"\"postgres\"", "\"another_database\""}},
  });
}

TEST_F(MessagesTest, OfChangesThatAreRefused) {
  const Arguments caught_up{"--until", "caught-up"};
  expect_messages({
      {"column_added",
       [](Scene& s) {
         s.cloned();
         s.source("alter table t add column w int; insert into t values (2, 'b', 2, 2)");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "w"}},
      {"target_table_gone",
       [](Scene& s) {
         s.cloned();
         s.target("drop table t");
         s.source("insert into t values (2)");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "target"}},
      {"row_missing",
       [](Scene& s) {
         s.cloned();
         s.target("delete from t");
         s.source("update t set v = 'b'");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "(id)=(1)", "LSN"}},
      {"duplicate",
       [](Scene& s) {
         s.cloned();
         s.target("insert into t values (99, 'x', 5, '0/0')");
         s.source("insert into t values (2, 'y', 5)");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "(u)=(5)", "LSN"}},
      {"check_violated",
       [](Scene& s) {
         s.cloned();
         s.target("alter table t add constraint no_bad check (v <> 'bad')");
         s.source("insert into t values (2, 'bad')");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "no_bad", "LSN"}},
  });
}

TEST_F(MessagesTest, OfTheEnd) {
  expect_messages({
      {"guard_in_use",
       [](Scene& s) {
         s.cloned();
         s.target("create view shown as select * from t");
       },
       "finish",
       {},
       1,
       {"\"public\".\"t\"", "shown"}},
      {"sequence_limit",
       [](Scene& s) {
         s.source("create sequence small maxvalue 10; select nextval('small')");
         s.cloned();
       },
       "sequences",
       {"--gap", "100"},
       8,
       {"\"public\".\"small\""}},
      {"newer_state",
       [](Scene& s) {
         s.cloned();
         s.target("update pgbaton.meta set schema_version = 9999");
       },
       "follow",
       {},
       2,
       {"9999"}},
      {"drop_without_source",
       [](Scene& s) {
         s.cloned();
         s.source_conninfo = with(s.source_conninfo, "port=1");
       },
       "drop",
       {},
       1,
       {"pgbaton_drop_without_source", "pg_drop_replication_slot"}},
  });
}

TEST_F(MessagesTest, OfAWriterThatIsTakenOver) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  auto follower = start("follow");
  ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
  const auto second = run("follow", {"--until", "caught-up", "--take-over"});
  EXPECT_EQ(second.code, 0) << second;
  expect_message(follower.wait(Milliseconds(30'000)), 7, {"replica", "default"});
}

TEST_F(MessagesTest, OfServersThatGoAway) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  for (auto* server : {&source(), &target()}) {
    auto follower = start("follow", {"--give-up-after", "2s"});
    ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
    server->stop();
    expect_message(follower.wait(Milliseconds(60'000)), 5, {server == &source() ? "source" : "target"});
    server->start();
  }
}

}  // namespace
}  // namespace pgbaton::testing
