// Errors of check, clone and what reads state.
#include "pg/messages.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(MessagesTest, BeforeAnythingIsMade) {
  const auto nothing = [](Scene&) {};
  expect_messages({
      {"source_refuses",
       [](Scene& s) { s.source_conninfo = with(s.source_conninfo, "port=1"); },
       "clone",
       {},
       1,
       {"source", "port 1"}},
      {"target_refuses",
       [](Scene& s) { s.target_conninfo = with(s.target_conninfo, "port=1"); },
       "clone",
       {},
       1,
       {"target", "port 1"}},
      {"source_no_database",
       [](Scene& s) { s.source_conninfo = with(s.source_conninfo, "dbname=nowhere"); },
       "clone",
       {},
       1,
       {"source", "nowhere"}},
      {"target_no_role",
       [](Scene& s) { s.target_conninfo = with(s.target_conninfo, "user=stranger"); },
       "clone",
       {},
       1,
       {"target", "stranger"}},
      {"status_target_refuses",
       [](Scene& s) { s.target_conninfo = with(s.target_conninfo, "port=1"); },
       "status",
       {},
       1,
       {"target", "port 1"}},
      {"same_database", [](Scene& s) { s.target_conninfo = s.source_conninfo; }, "clone", {}, 3, {"same_database"}},
      {"wal_level", [](Scene& s) { std::swap(s.source_conninfo, s.target_conninfo); }, "clone", {}, 3, {"wal_level"}},
      {"slot_taken",
       [](Scene& s) { s.source("select pg_create_logical_replication_slot('pgbaton_slot_taken', 'pgoutput')"); },
       "clone",
       {},
       3,
       {"pgbaton_slot_taken"}},
      {"publication_taken",
       [](Scene& s) { s.source("create publication pgbaton_publication_taken"); },
       "clone",
       {},
       3,
       {"pgbaton_publication_taken"}},
      {"weak_source",
       [](Scene& s) {
         s.table();
         s.source("create role weakling login");
         s.source_conninfo = with(s.source_conninfo, "user=weakling");
       },
       "clone",
       {},
       3,
       {"weakling"}},
      {"weak_target",
       [](Scene& s) {
         s.table();
         s.target("create role feeble login");
         s.target_conninfo = with(s.target_conninfo, "user=feeble");
       },
       "clone",
       {},
       3,
       {"feeble"}},
      {"publication_missing", [](Scene& s) { s.table(); }, "clone", {"--publication", "not_there"}, 3, {"not_there"}},
      {"no_such_table", [](Scene& s) { s.table(); }, "clone", {"--include-table", "nope"}, 2, {"nope"}},
      {"no_such_data", [](Scene& s) { s.table(); }, "clone", {"--exclude-data", "nope"}, 2, {"nope"}},
      {"bad_table_name", nothing, "clone", {"--include-table", "\"open"}, 2, {"open"}},
      {"events_file", nothing, "clone", {"--events", "/nowhere/events"}, 2, {"/nowhere/events"}},
      {"pg_dump_missing",
       [](Scene& s) { s.table(); },
       "clone",
       {"--pg-dump", "/nowhere/pg_dump"},
       3,
       {"/nowhere/pg_dump"}},
      {"large_objects", [](Scene& s) { s.source("select lo_create(0)"); }, "clone", {}, 3, {"large object"}},
      {"role_missing",
       [](Scene& s) {
         s.source(
             "create role elsewhere; create table t (id int primary key); alter table t owner to "
             "elsewhere");
       },
       "clone",
       {},
       3,
       {"elsewhere"}},
  });
}

TEST_F(MessagesTest, OfACopy) {
  expect_messages({
      {"target_not_empty",
       [](Scene& s) {
         s.table();
         s.target("create table t (id int)");
       },
       "clone",
       {},
       3,
       {"\"public\".\"t\""}},
      {"schema_none_missing", [](Scene& s) { s.table(); }, "clone", {"--schema", "none"}, 3, {"\"public\".\"t\""}},
      {"schema_none_filled",
       [](Scene& s) {
         s.table();
         s.target("create table t (id int primary key, v text, u int); insert into t values (7)");
       },
       "clone",
       {"--schema", "none"},
       3,
       {"\"public\".\"t\""}},
      {"schema_none_columns",
       [](Scene& s) {
         s.table();
         s.target("create table t (id int primary key, v text)");
       },
       "clone",
       {"--schema", "none"},
       3,
       {"\"public\".\"t\"", "\"u\""}},
      {"row_refused",
       [](Scene& s) {
         s.table();
         s.target("create table t (id int primary key, v text check (v <> 'a'), u int)");
       },
       "clone",
       {"--schema", "none"},
       8,
       {"\"public\".\"t\"", "target", "t_v_check"}},
      {"type_exists",
       [](Scene& s) {
         s.source("create type mood as enum ('good'); create table t (id int primary key, m mood)");
         s.target("create type mood as enum ('bad')");
       },
       "clone",
       {},
       8,
       {"mood", "target"}},
      {"slot_wait",
       [](Scene& s) {
         s.table();
         s.sessions.emplace_back(s.source_cluster.conninfo(s.name));
         s.sessions.back().exec("begin; insert into t values (2)");
       },
       "clone",
       {"--slot-wait", "1s"},
       5,
       {"insert into t values (2)"}},
      {"no_such_replica", [](Scene& s) { s.table(); }, "follow", {}, 2, {"no_such_replica", "target"}},
      {"wait_in_vain", [](Scene& s) { s.table(); }, "wait", {"--timeout", "1s"}, 5, {"wait_in_vain", "ready"}},
      {"follow_too_early", [](Scene& s) { s.almost_cloned(); }, "follow", {}, 2, {"follow_too_early", "indexing"}},
      {"other_options",
       [](Scene& s) { s.almost_cloned(); },
       "clone",
       {"--keyless", "exclude"},
       2,
       {"other_options", "keyless"}},
      {"other_source",
       [](Scene& s) {
         s.almost_cloned();
         s.source("create database another");
         s.source_conninfo = with(s.source_conninfo, "dbname=another");
       },
       "clone",
       {},
       2,
       {"other_source", "another"}},
      {"finish_too_early", [](Scene& s) { s.cloned({}); }, "finish", {}, 3, {"finish_too_early", "streaming"}},
  });
}

// What a failed clone tells to paste works in a shell.
TEST_F(MessagesTest, TheDropLineCanBePasted) {
  source().exec("create database \"it's a $HOME\"");
  const auto database = "dbname='it\\'s a $HOME'";
  const auto conninfo = with(source().conninfo(), database);
  Session(conninfo).exec("create table t (id int primary key)");
  const auto failed = Tool::run({"clone", "--source", conninfo, "--target", with(target().conninfo(), "")},
                                Milliseconds(60'000), {{"PGBATON_FAILPOINTS", "before_streaming=stop"}});
  EXPECT_NE(failed.code, 0);
  EXPECT_THAT(failed.err, Not(HasSubstr(kPassword)));
  const auto at = failed.err.find("pgbaton drop ");
  ASSERT_NE(at, std::string::npos) << failed;
  auto line = failed.err.substr(at, failed.err.find('\n', at) - at);
  line.replace(0, 7, Tool::path());
  run_checked({.arguments = {"sh", "-c", line}});
  EXPECT_EQ(source().number("select count(*) from pg_replication_slots"), 0);
  EXPECT_EQ(target().scalar("select to_regnamespace('pgbaton')::text"), "");
}

}  // namespace
}  // namespace pgbaton::testing
